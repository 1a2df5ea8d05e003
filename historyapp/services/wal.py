"""Shortens SQLite's log of changes (the WAL) while the server runs, and empties it after deletions.

SQLite writes the log back into the database after commits, but begins it again only at a moment at which no
query uses it. Many queries that overlap leave no such moment. When the disk is full, no commit succeeds any
more, and the log would keep its space for ever.
"""

import logging
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from django.db import connection

from historyapp.models.wal_size import excessive_wal
from historyapp.services.faults import current_fault
from historyapp.services.transactions import writers_waiting
from historyapp.wire.problems import DatabaseCorrupt

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
WAIT_SECONDS = 2.0
"""How long writers wait until the queries have ended that use the log. With queries of 0.4 s that overlap, it
takes 0.8 s; half a second is never enough."""
BRIEF_WAIT_SECONDS = 0.2
"""The same, for emptying a log that is not too long. It is tried again later."""
MAX_SHARE = 0.2
"""The maximum share of the time in which a process shortens or empties the log."""


def watch_wal() -> None:
    """Runs in a thread of the web process."""
    if connection.vendor != "sqlite":
        return
    path = str(connection.settings_dict["NAME"])
    pause = CHECK_SECONDS
    while True:
        time.sleep(pause)
        started = time.monotonic()
        with suppress(OSError, sqlite3.Error):  # writers report them
            if not isinstance(current_fault(), DatabaseCorrupt):
                shorten_wal(path)
        pause = max(CHECK_SECONDS, (time.monotonic() - started) / MAX_SHARE)


def shorten_wal(path: str) -> None:
    """Writes the log of a database back and makes it empty, if it is too long."""
    if (size := excessive_wal(path)) and not _is_emptied(path, WAIT_SECONDS):
        log.warning(
            "%s-wal has %d bytes and grows until all open queries have ended. They took longer than %g s.",
            *(path, size, WAIT_SECONDS),
        )


def empty_wal() -> bool:
    """Writes the log back and makes it empty, because both files keep what was deleted until then.

    Returns whether it is empty. It may stay as it is: within a transaction, while queries use it, and if this
    process has emptied it a moment ago.
    """
    path = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite" or not Path(f"{path}-wal").exists():
        return True
    started = time.monotonic()
    if connection.in_atomic_block or started < _Emptied.next_attempt:
        return False
    try:
        return _is_emptied(path, BRIEF_WAIT_SECONDS)
    except sqlite3.Error:  # writers report it
        return False
    finally:
        now = time.monotonic()
        _Emptied.next_attempt = now + (now - started) / MAX_SHARE


class _Emptied:
    next_attempt = 0.0
    """By the monotonic clock."""


def _is_emptied(path: str, wait_seconds: float) -> bool:
    """Writes the log back. Returns whether it is empty then.

    Args:
        wait_seconds: how long writers wait for queries that use the log.
    """
    with closing(sqlite3.connect(path, timeout=wait_seconds)) as file:
        file.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, while others may write
        with writers_waiting():
            is_busy, *_ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy
