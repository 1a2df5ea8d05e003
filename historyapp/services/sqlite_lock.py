"""Whether another program holds SQLite's write lock for too long.

Of the threads of this process, one at a time waits for SQLite's lock. The others wait for this thread, or for
a thread, so the errors of SQLite do not reach them. Here they find out for what they have waited.
"""

import sqlite3
import time

from django.conf import settings

_RECENT = 1.0
"""Seconds after a failed wait in which other writes that give up name the same lock: they began to wait at
about the same time."""
_NEVER = float("-inf")


class _Wait:
    """The wait for SQLite's lock. Only the thread that may write changes it. Times are monotonic."""

    since: float | None = None
    """When the wait began; None if no thread waits."""
    failed_at = _NEVER
    """When a long wait last ended without the lock. None has succeeded since then."""


def begin_wait() -> None:
    """Called before a transaction of SQLite begins."""
    _Wait.since = time.monotonic()


def end_wait() -> None:
    """Called when it has begun."""
    _Wait.since, _Wait.failed_at = None, _NEVER


def fail_wait() -> None:
    """Called when a transaction has ended. Does nothing if it had begun."""
    if _Wait.since is not None:
        if _is_long(_Wait.since):
            _Wait.failed_at = time.monotonic()
        _Wait.since = None


def is_held_elsewhere() -> bool:
    """Whether a thread has waited for SQLite's lock longer than a transaction of Playhead may take."""
    since = _Wait.since
    return (since is not None and _is_long(since)) or time.monotonic() < _Wait.failed_at + _RECENT


def _is_long(since: float) -> bool:
    return time.monotonic() > since + settings.PLAYHEAD_TRANSACTION_SECONDS


def cause_of_wait() -> sqlite3.OperationalError | None:
    """The error of SQLite that a thread would have got instead of the one for which it has waited, or None if
    only threads of this process have written."""
    if not is_held_elsewhere():
        return None
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error
