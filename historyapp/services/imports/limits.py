"""The limits of an import, applied before a transaction begins."""

from historyapp.core.errors import Invalid
from historyapp.core.importers.base import SessionStart, Skipped
from historyapp.services.imports.reports import FileReport

MAX_SESSIONS = 10_000
"""The maximum number of sessions of one file. Each takes a transaction, and other imports wait meanwhile."""

MAX_WAITING_BYTES = 64 * 2**20
"""The memory of all operations of a file that wait until their session's batch is full."""

MAX_PROVISIONAL = 1000
"""The provisional operations at the end of a session. Each batch stores the digests of all of them again, so
when there are more, all of them count as settled. Real files have a few."""


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
