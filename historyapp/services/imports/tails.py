"""Reads the tails that the rewinds and forks of a file need, before their transactions."""

from historyapp.core.errors import Invalid
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail
from historyapp.models import Session
from historyapp.models.large_reads import end_large_read
from historyapp.models.long_rows import bytes_left
from historyapp.models.tails import tail_of

MAX_CUT_BYTES = 1 << 30
"""The maximum number of bytes that the rewinds and forks of one file may read of the steps that they cut."""
MAX_COPIED = 1 << 26
"""The maximum number of characters in the ids of open tool calls that they may store again. A line of 100
characters can store the 1,000 ids of a step; steps of recorded sessions have up to 20 open tool calls."""


class Tails:
    """The tails that one file needs next, up to :data:`MAX_CUT_BYTES`.

    A step may have thousands of entries or many megabytes, and other writers would wait while a transaction
    reads it. A tail depends on the newest live entry only, because the entries before an entry are the same
    in every lineage. So it is read once, however many rewinds and forks end there.
    """

    def __init__(self) -> None:
        self._left, self._copied = MAX_CUT_BYTES, 0
        self._tails: dict[tuple[str, int], Tail] = {}
        """By the session and the position of the newest entry."""

    def read(self, session: Session, position: int) -> None:
        """Reads the tail of a stored session at a position, unless it is known.

        Raises:
            Invalid: if the file's rewinds and forks read too much.
        """
        lineage = session.lineage(position).cut(position)
        if (end := _end(lineage)) in self._tails:
            return
        outer = bytes_left.set(self._left)
        try:
            self._tails[end] = tail_of(lineage)
        except Invalid as error:
            raise Invalid(
                f"The rewinds and forks of this file read more than {MAX_CUT_BYTES:,} bytes of the steps "
                "that they cut. The operations before this one are imported."
            ) from error
        finally:
            self._left = bytes_left.get() or 0
            bytes_left.reset(outer)
            end_large_read()

    def of(self, lineage: Lineage) -> Tail | None:
        """The tail of a lineage, or None if it was not read."""
        return self._tails.get(_end(lineage))

    def count_copy(self, session: Session) -> None:
        """Counts what a rewind or fork has stored again of the step that it cut.

        Raises:
            Invalid: if the file's rewinds and forks store too much.
        """
        step = session.tail.get("step") or {}
        self._copied += sum(map(len, step.get("pending", ())))
        if self._copied > MAX_COPIED:
            raise Invalid(
                f"The rewinds and forks of this file store more than {MAX_COPIED:,} characters in the ids of "
                "open tool calls again. The operations before this one are imported. Leave out the rewinds "
                "and forks within steps with many open tool calls."
            )

    def forget(self) -> None:
        """Forgets all tails except the last one, because a tail may be long."""
        while len(self._tails) > 1:
            del self._tails[next(iter(self._tails))]


def _end(lineage: Lineage) -> tuple[str, int]:
    return (lineage.newest[-1].session, lineage.last) if lineage.newest else ("", 0)
