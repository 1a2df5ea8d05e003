"""Faults of the database: a full disk, damage, a read-only file, a lock of another program, no connection.

Each process remembers the newest fault for a minute or until a write succeeds, for ``/readyz`` and the pages.
Damage is recorded in the data folder, for all processes. Then nothing is written until a check at a start
finds no damage.
"""

import logging
import os
import shutil
import sqlite3
import time
import traceback
from contextlib import closing, suppress
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.sqlite3 import base

from historyapp.models import run_sql
from historyapp.wire.problems import (
    DatabaseCorrupt,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    ServerUnavailable,
    StorageFailed,
)

log = logging.getLogger(__name__)

REMEMBERED = 60.0
"""A fault is shown for this many seconds after it last occurred. It is logged once in this time."""
START_SECONDS = 2.0
"""The start waits this many seconds for the check of the database, which continues in the background."""
CHECK_SECONDS = 3600.0
"""Seconds between two checks in the background; more if a check takes longer than 1 % of this."""

_DETAILS: dict[type[StorageFailed], str] = {
    DiskFull: "The disk of the database is full or refuses writes. Nothing was written. Free some space.",
    DatabaseCorrupt: "The database is damaged. Nothing is written until it has been repaired or restored.",
    DatabaseReadOnly: "The server may not write to the database. Make the file and its folder writable.",
    DatabaseLocked: "Another program has locked the database for too long. Retry, or end that program.",
    DatabaseUnreachable: "The database does not answer, or the connection to it broke. Retry.",
}
_READ_ONLY_SERVER = "The database accepts no writes: it is a standby, or its operator has made it read-only."
_RETRY_AFTER: dict[type[StorageFailed], int] = {DatabaseLocked: 1, DatabaseUnreachable: 2}
_PRIMARY = 0xFF
"""The lowest byte of SQLite's extended codes is the primary code."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BY_CODE: dict[int, type[StorageFailed]] = {
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_CORRUPT: DatabaseCorrupt,
    sqlite3.SQLITE_NOTADB: DatabaseCorrupt,
    sqlite3.SQLITE_IOERR: DatabaseCorrupt,
    sqlite3.SQLITE_READONLY: DatabaseReadOnly,
    sqlite3.SQLITE_PERM: DatabaseReadOnly,
    sqlite3.SQLITE_CANTOPEN: DatabaseReadOnly,
    sqlite3.SQLITE_BUSY: DatabaseLocked,
    sqlite3.SQLITE_LOCKED: DatabaseLocked,
}
_FAILED_WRITES = (
    *(sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE),
    *(sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP),
)
_BY_SQLSTATE: dict[str, type[StorageFailed]] = {
    "53100": DiskFull,
    "XX001": DatabaseCorrupt,
    "XX002": DatabaseCorrupt,
    "25006": DatabaseReadOnly,
    "55P03": DatabaseLocked,
    "53300": DatabaseUnreachable,
    "25P03": DatabaseUnreachable,
    **dict.fromkeys(("57P01", "57P02", "57P03", "57P05"), DatabaseUnreachable),
    **dict.fromkeys(("08000", "08001", "08003", "08004", "08006"), DatabaseUnreachable),
}
"""PostgreSQL's error codes."""
_DAMAGED_STATES = ("XX001", "XX002")
_MISSING_IN_SCHEMA = ("no such table: historyapp_", "no such column: historyapp_", "no column named ")
_MISSING_STATES = ("42P01", "42703")
"""PostgreSQL's codes: undefined table, undefined column."""


class _Memory:
    """The newest fault of this process."""

    fault: StorageFailed | None = None
    seen = 0.0
    logged: dict[type[StorageFailed], float] = {}
    damage = ""
    checked = -REMEMBERED
    """The time at which an error last caused a check for damage."""


def fault_of(error: BaseException | None) -> StorageFailed | None:
    """The fault that caused an error of the database, or None."""
    if error is None:
        return None
    cause = error.__cause__ or error  # Django wraps the driver's errors
    code = getattr(cause, "sqlite_errorcode", None)
    state = getattr(cause, "sqlstate", None)
    kind: type[StorageFailed] | None
    if _is_unreadable_text(cause):
        kind = DatabaseCorrupt
    elif code is not None:
        kind = DiskFull if code in _FAILED_WRITES else _BY_CODE.get(code & _PRIMARY)
    elif state:
        kind = _BY_SQLSTATE.get(state)
    elif connection.vendor == "postgresql" and isinstance(error, (OperationalError, InterfaceError)):
        kind = DatabaseUnreachable  # in psycopg, only errors from the server have a state
    else:
        kind = None
    return _fault(kind) if kind else None


def unavailable(error: BaseException | None) -> ServerUnavailable | None:
    """The reason why the database cannot be used now, or None. See :func:`note`."""
    if fault := note(error):
        return fault
    if _is_missing_in_schema(error):
        return ServerUnavailable(
            "The database has not been migrated for this version of Playhead. Restart Playhead with "
            "`playhead up`, which migrates it, or run `playhead migrate`."
        )
    if isinstance(error, OperationalError):
        return ServerUnavailable("The database is busy. Try again in a moment.", retry_after=1)
    return None


def _is_missing_in_schema(error: BaseException | None) -> bool:
    """Whether a query names a table or a column that the database does not have."""
    cause = error and (error.__cause__ or error)
    if isinstance(cause, sqlite3.OperationalError):
        return any(text in str(cause) for text in _MISSING_IN_SCHEMA)
    return getattr(cause, "sqlstate", None) in _MISSING_STATES


def _is_unreadable_text(cause: BaseException) -> bool:
    """Whether text in the file is not UTF-8: in a row, or in a damaged schema that SQLite quotes."""
    if isinstance(cause, UnicodeDecodeError):
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(cause.__traceback__)]
        return files[-1:] in ([base.__file__], [run_sql.__file__])
    return "Could not decode to UTF-8" in str(cause)


def note(error: BaseException | None) -> StorageFailed | None:
    """As :func:`fault_of`; also remembers the fault and logs its cause."""
    fault = fault_of(error)
    if fault is None:
        return None
    cause = (error.__cause__ or error) if error else None
    primary, state = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY, getattr(cause, "sqlstate", None)
    if primary in _DAMAGED or state in _DAMAGED_STATES or isinstance(cause, UnicodeDecodeError):
        _note_damage(str(cause))
    now = time.monotonic()
    if now > _Memory.logged.get(type(fault), -REMEMBERED) + REMEMBERED:
        _Memory.logged[type(fault)] = now
        log.error("The database cannot be used (%s): %s. %s", fault.code, str(cause).strip(), _space())
    # Pages and health checks notice a lost connection themselves. On PostgreSQL a lock concerns a few rows.
    is_local = isinstance(fault, DatabaseLocked) and connection.vendor == "postgresql"
    if not (is_local or isinstance(fault, DatabaseUnreachable)):
        _Memory.fault, _Memory.seen = fault, now
    return fault


def note_success() -> None:
    """Clears the fault after a successful write: the disk has space and the database is writable."""
    if _Memory.fault:
        _Memory.logged.pop(type(_Memory.fault), None)
        _Memory.fault = None


def current() -> StorageFailed | None:
    """The current fault, or None."""
    if _known_damage():
        return _fault(DatabaseCorrupt)
    if _Memory.fault and time.monotonic() < _Memory.seen + REMEMBERED:
        return _Memory.fault
    return None


def refuse_damaged() -> None:
    """Called before every write.

    Raises:
        DatabaseCorrupt: when the database is known to be damaged.
    """
    if _known_damage():
        raise _fault(DatabaseCorrupt)


def find_damage() -> StorageFailed | None:
    """The damage that may have caused an unexpected error: rows of a damaged file can contain anything.

    The file is checked at most once a minute, for at most two seconds.
    """
    now = time.monotonic()
    if not _known_damage() and now > _Memory.checked + REMEMBERED:
        _Memory.checked = now
        if damage := check_database(START_SECONDS):
            _note_damage(damage)
    return _fault(DatabaseCorrupt) if _known_damage() else None


def check_at_start() -> str:
    """The first damage found within two seconds, or an empty text.

    If the database was damaged before, the check is complete and takes as long as it needs. If it finds
    nothing, the damage counts as repaired.
    """
    is_known = _known_damage()
    damage = check_database(None if is_known else START_SECONDS, thorough=is_known)
    if damage:
        _note_damage(damage)
    elif is_known:
        _Memory.damage = ""
        with suppress(OSError):
            Path(_marker()).unlink()
    return damage


def watch_database() -> None:
    """Checks the database every hour; runs in a thread of the web process."""
    pause = START_SECONDS
    while not _known_damage():
        time.sleep(pause)
        began = time.monotonic()
        if damage := check_database():
            _note_damage(damage)
        pause = max(CHECK_SECONDS, 100 * (time.monotonic() - began))


def check_database(seconds: float | None = None, *, thorough: bool = False) -> str:
    """The first damage of the SQLite file, or an empty text. PostgreSQL has checksums of its own.

    Args:
        seconds: the check ends after this time, without a result.
        thorough: compare indexes with their tables too, which takes several times as long.
    """
    if connection.vendor != "sqlite":
        return ""
    path = Path(str(connection.settings_dict["NAME"]))
    if not path.exists():
        return ""
    end = time.monotonic() + (seconds or 0)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            if seconds is not None:
                file.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            check = "integrity_check" if thorough else "quick_check"
            (answer,) = file.execute(f"PRAGMA {check}(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error) if error.sqlite_errorcode & _PRIMARY in _DAMAGED else ""
    except UnicodeDecodeError:  # SQLite's message quotes a damaged schema
        return "malformed database schema"
    return "" if answer == "ok" else str(answer)


def _fault(kind: type[StorageFailed]) -> StorageFailed:
    is_read_only_server = kind is DatabaseReadOnly and connection.vendor == "postgresql"
    detail = _READ_ONLY_SERVER if is_read_only_server else _DETAILS[kind]
    return kind(detail, retry_after=_RETRY_AFTER.get(kind, 30))


def _known_damage() -> bool:
    # Runs before each write. A Path and its exists() would take four times as long.
    return bool(_Memory.damage) or os.path.exists(_marker())  # noqa: PTH110


def _note_damage(cause: str) -> None:
    if _known_damage():
        return
    _Memory.damage = cause
    log.critical("The database is damaged: %s. Nothing is written until it is repaired. %s", cause, _space())
    with suppress(OSError):  # then only this process refuses writes
        Path(_marker()).write_text(f"{cause}\n")


def _marker() -> str:
    """The path of the file that records damage."""
    return f"{settings.PLAYHEAD_HOME}/damaged"


def _space() -> str:
    """The database and its free disk space, for the log."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite":
        return f"Database {name} on PostgreSQL."
    try:
        free = shutil.disk_usage(Path(name).parent).free
    except OSError as error:
        return f"Database {name}: {error.strerror}."
    return f"Database {name}, {free:,} bytes free."
