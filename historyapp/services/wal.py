"""Shortens SQLite's log of changes (the WAL) while the server runs.

SQLite writes the log back into the database after commits, but begins it again only at a moment at which no
query uses it. Many queries that overlap leave no such moment. When the disk is full, no commit succeeds any
more, and the log would keep its space for ever.
"""

import logging
import sqlite3
import time
from contextlib import closing, suppress

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
MAX_SHARE = 0.2
"""The maximum share of the time in which the log is shortened."""


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
    if not (size := excessive_wal(path)):
        return
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as file:
        file.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, while others may write
        with writers_waiting():
            is_busy, *_ = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        log.warning(
            "%s-wal has %d bytes and grows until all open queries have ended. They took longer than %g s.",
            *(path, size, WAIT_SECONDS),
        )
