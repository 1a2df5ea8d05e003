"""The limits of an import, applied before a transaction begins."""

from historyapp.core.errors import Invalid
from historyapp.core.importers.base import SessionStart, Skipped
from historyapp.core.projection import Tail
from historyapp.models import Session
from historyapp.models.long_rows import bytes_left
from historyapp.services.imports.reports import FileReport
from historyapp.services.rewinds import tail_at

LONG_STEP = 1 << 20
"""The end of a step of this many bytes is read before the transaction of a rewind or fork that cuts it."""
MAX_CUT_BYTES = 1 << 30
"""The maximum number of bytes that the rewinds and forks of one file may read of long steps."""
MAX_SESSIONS = 10_000
"""The maximum number of sessions of one file. Each takes a transaction, and other imports wait meanwhile."""


class LongSteps:
    """Reads the long steps that the rewinds and forks of one file cut, up to :data:`MAX_CUT_BYTES`."""

    def __init__(self) -> None:
        self.has_any = False
        """Whether the file has a long step."""
        self._step_size: dict[str, int] = {}
        self._left = MAX_CUT_BYTES

    def add(self, session: str, kind: str, size: int) -> None:
        """Notes an entry of the file. ``size``: the bytes of its JSON."""
        before = 0 if kind == "model_output" else self._step_size.get(session, 0)
        self._step_size[session] = before + size
        self.has_any |= before + size >= LONG_STEP

    def tail(self, session: Session, position: int) -> Tail:
        """The tail of a stored session at a position.

        Raises:
            Invalid: if the file's rewinds and forks read too much.
        """
        outer = bytes_left.set(self._left)
        try:
            return tail_at(session, position)
        except Invalid as error:
            raise Invalid(
                f"The rewinds and forks of this file read more than {MAX_CUT_BYTES:,} bytes of the steps "
                "that they cut. The operations before this one are imported."
            ) from error
        finally:
            self._left = bytes_left.get() or 0
            bytes_left.reset(outer)


def check_number_of_sessions(sessions: int) -> None:
    """Checks the number of sessions that a file has so far.

    Raises:
        Invalid: if there are too many.
    """
    if sessions > MAX_SESSIONS:
        raise Invalid(
            f"The file has more than {MAX_SESSIONS:,} sessions. Split it and import the parts. What is "
            "imported already is not imported again."
        )


def report_left_out(report: FileReport, start: SessionStart) -> None:
    """Reports what is left out of a session's header because of its size."""
    for reason in start.left_out:
        report.skip(Skipped(1, reason))
