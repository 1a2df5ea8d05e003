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
from django.db import DatabaseError, DataError, InterfaceError, OperationalError, connection
from django.db.backends.sqlite3 import base

from historyapp.models import run_sql
from historyapp.services.sqlite_lock import is_held_elsewhere
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

UNREACHABLE = (OperationalError, InterfaceError, ServerUnavailable)
"""The errors after which the same access to the database may succeed later."""
FAULT_SECONDS = 60.0
"""A fault is shown for this many seconds after it last occurred. It is logged once in this time."""
SHORT_CHECK_SECONDS = 2.0
"""The time limit of the checks for which a start or a request waits."""
CHECK_INTERVAL = 3600.0
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
_PRIMARY_CODE = 0xFF
"""A mask: the lowest byte of an extended code of SQLite is its primary code."""
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
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
_VALUE_CODES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT_CHECK)
"""SQLite's codes of errors that values cause. The first one is also that of a sum beyond 64 bits."""
_VALUE_STATES = ("23514", "54000", "54001")
"""PostgreSQL's codes of a violated check, of a value that is too long for an index or a text vector, and of
one that is nested too deeply. Its other errors that values cause are a ``DataError``."""
_CANCELLED = "57014"
"""PostgreSQL's code of a statement that ran too long, see :mod:`historyapp.services.statement_limits`."""
_DAMAGE_STATES = ("XX001", "XX002")
_MISSING_IN_SCHEMA = ("no such table: historyapp_", "no such column: historyapp_", "no column named ")
_MISSING_STATES = ("42P01", "42703")
"""PostgreSQL's codes: undefined table, undefined column."""


class _FaultState:
    """What this process knows about faults. Times are those of ``time.monotonic``."""

    fault: StorageFailed | None = None
    """The newest fault; None after a successful write."""
    occurred_at = 0.0
    """When ``fault`` last occurred."""
    logged_at: dict[type[StorageFailed], float] = {}
    """When each kind of fault was last logged."""
    damage = ""
    """The cause of the damage that this process has found."""
    checked_at = -FAULT_SECONDS
    """When an error last caused a check for damage."""


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
        kind = DiskFull if code in _FAILED_WRITES else _BY_CODE.get(code & _PRIMARY_CODE)
    elif state:
        kind = _BY_SQLSTATE.get(state)
    elif connection.vendor == "postgresql" and isinstance(error, (OperationalError, InterfaceError)):
        kind = DatabaseUnreachable  # in psycopg, only errors from the server have a state
    else:
        kind = None
    return _fault(kind) if kind else None


def unavailable(error: BaseException | None) -> ServerUnavailable | None:
    """The reason why the database cannot be used now, or None. Records a fault, see :func:`record_fault`."""
    if fault := record_fault(error):
        return fault
    if _is_missing_in_schema(error):
        return ServerUnavailable(
            "The database has not been migrated for this version of Playhead. Restart Playhead with "
            "`playhead up`, which migrates it, or run `playhead migrate`."
        )
    if getattr(error and error.__cause__, "sqlstate", None) == _CANCELLED:
        return ServerUnavailable(
            "The database took too long for one statement. Ask for less, or try again later.", retry_after=10
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


def concerns_data(error: BaseException) -> bool:
    """Whether an error is caused by the processed rows, so that other rows can still be processed.

    False for faults of the database, for locks and for lost connections, which concern all rows.
    """
    if not isinstance(error, (DatabaseError, InterfaceError, StorageFailed)):
        return fault_of(error) is None
    cause = error.__cause__ or error
    code, state = getattr(cause, "sqlite_errorcode", None), getattr(cause, "sqlstate", None)
    is_of_values = isinstance(error, DataError) or code in _VALUE_CODES or state in _VALUE_STATES
    return is_of_values and not _is_missing_in_schema(error)


def is_row_lock(error: BaseException) -> bool:
    """Whether PostgreSQL refused to wait longer for a locked row. On SQLite a lock concerns all rows."""
    return connection.vendor == "postgresql" and isinstance(fault_of(error), DatabaseLocked)


def record_fault(error: BaseException | None) -> StorageFailed | None:
    """As :func:`fault_of`; also records the fault and logs its cause."""
    fault = fault_of(error)
    if fault is None:
        return None
    cause = (error.__cause__ or error) if error else None
    primary, state = getattr(cause, "sqlite_errorcode", 0) & _PRIMARY_CODE, getattr(cause, "sqlstate", None)
    if primary in _DAMAGE_CODES or state in _DAMAGE_STATES or isinstance(cause, UnicodeDecodeError):
        _record_damage(str(cause))
    now = time.monotonic()
    if now > _FaultState.logged_at.get(type(fault), -FAULT_SECONDS) + FAULT_SECONDS:
        _FaultState.logged_at[type(fault)] = now
        log.error("The database cannot be used (%s): %s. %s", fault.code, str(cause).strip(), _disk_space())
    # Pages and health checks notice a lost connection themselves. On PostgreSQL a lock concerns a few rows.
    is_local = isinstance(fault, DatabaseLocked) and connection.vendor == "postgresql"
    if not (is_local or isinstance(fault, DatabaseUnreachable)):
        _FaultState.fault, _FaultState.occurred_at = fault, now
    return fault


def clear_fault() -> None:
    """Clears the fault after a successful write: the disk has space and the database is writable."""
    if _FaultState.fault:
        _FaultState.logged_at.pop(type(_FaultState.fault), None)
        _FaultState.fault = None


def current_fault() -> StorageFailed | None:
    """The current fault, or None."""
    if _is_damaged():
        return _fault(DatabaseCorrupt)
    if _FaultState.fault and time.monotonic() < _FaultState.occurred_at + FAULT_SECONDS:
        return _FaultState.fault
    return foreign_lock()


def foreign_lock() -> StorageFailed | None:
    """The fault of the lock for which writes of this process wait, if another program holds it, or None."""
    return _fault(DatabaseLocked) if is_held_elsewhere() else None


def refuse_damaged() -> None:
    """Called before every write.

    Raises:
        DatabaseCorrupt: when the database is known to be damaged.
    """
    if _is_damaged():
        raise _fault(DatabaseCorrupt)


def refuse_full_disk() -> None:
    """Called before a model is called, whose response needs space.

    Raises:
        DiskFull: when a write has failed for this reason within a minute, and none has succeeded since.
    """
    if isinstance(fault := current_fault(), DiskFull):
        raise fault


def find_damage() -> StorageFailed | None:
    """The damage that may have caused an unexpected error: rows of a damaged file can contain anything.

    The file is checked at most once a minute, for at most two seconds.
    """
    now = time.monotonic()
    if not _is_damaged() and now > _FaultState.checked_at + FAULT_SECONDS:
        _FaultState.checked_at = now
        if damage := check_database(SHORT_CHECK_SECONDS):
            _record_damage(damage)
    return _fault(DatabaseCorrupt) if _is_damaged() else None


def check_at_start() -> str:
    """The first damage found within two seconds, or an empty text.

    If damage was recorded before, the check is complete and has no time limit. If it finds nothing, the
    damage has been repaired and its record is deleted.
    """
    is_known = _is_damaged()
    damage = check_database(None if is_known else SHORT_CHECK_SECONDS, thorough=is_known)
    if damage:
        _record_damage(damage)
    elif is_known:
        _FaultState.damage = ""
        with suppress(OSError):
            Path(_damage_file()).unlink()
    return damage


def watch_database() -> None:
    """Checks the database every hour; runs in a thread of the web process."""
    pause = SHORT_CHECK_SECONDS
    while not _is_damaged():
        time.sleep(pause)
        started = time.monotonic()
        if damage := check_database():
            _record_damage(damage)
        pause = max(CHECK_INTERVAL, 100 * (time.monotonic() - started))


def check_database(seconds: float | None = None, *, thorough: bool = False) -> str:
    """The first damage of the SQLite file, or an empty text. Does nothing on PostgreSQL, which has checksums.

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
            (result,) = file.execute(f"PRAGMA {check}(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error) if error.sqlite_errorcode & _PRIMARY_CODE in _DAMAGE_CODES else ""
    except UnicodeDecodeError:  # SQLite's message quotes a damaged schema
        return "malformed database schema"
    return "" if result == "ok" else str(result)


def _fault(kind: type[StorageFailed]) -> StorageFailed:
    is_read_only_server = kind is DatabaseReadOnly and connection.vendor == "postgresql"
    detail = _READ_ONLY_SERVER if is_read_only_server else _DETAILS[kind]
    return kind(detail, retry_after=_RETRY_AFTER.get(kind, 30))


def _is_damaged() -> bool:
    # Runs before each write. A Path and its exists() would take four times as long.
    return bool(_FaultState.damage) or os.path.exists(_damage_file())  # noqa: PTH110


def _record_damage(cause: str) -> None:
    if _is_damaged():
        return
    _FaultState.damage = cause
    log.critical(
        "The database is damaged: %s. Nothing is written until it is repaired. %s", cause, _disk_space()
    )
    with suppress(OSError):  # without the file, only this process refuses writes
        Path(_damage_file()).write_text(f"{cause}\n")


def _damage_file() -> str:
    """The path of the file that records damage."""
    return f"{settings.PLAYHEAD_HOME}/damaged"


def _disk_space() -> str:
    """The database and its free disk space, for the log."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite":
        return f"Database {name} on PostgreSQL."
    try:
        free = shutil.disk_usage(Path(name).parent).free
    except OSError as error:
        return f"Database {name}: {error.strerror}."
    return f"Database {name}, {free:,} bytes free."
