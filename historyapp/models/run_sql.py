"""Runs the statements of the hot path.

On SQLite they use the driver's own connection. Django makes a cursor with two wrappers for each statement
and translates its placeholders again, which takes longer than SQLite takes to insert a short row.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import lru_cache
from sqlite3 import Connection, register_adapter
from time import monotonic
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from historyapp.models.transaction_limits import TransactionLimit
from historyapp.models.vendor import in_debug_mode, on_sqlite

# The driver looks for an adapter of each value that is not a text, a number or a bytearray. Without one it
# raises an exception and drops it, which takes longer than inserting a short value.
register_adapter(bytes, bytearray)
register_adapter(type(None), lambda none: none)

_ROWS_AT_ONCE = 1_000
"""Rows between two checks of the time limit. An interruption of SQLite can miss statements as short as these.
"""
transaction_database: ContextVar[BaseDatabaseWrapper | None] = ContextVar(
    "transaction_database", default=None
)
"""Django's connection while a write transaction is open. Looking it up for each statement takes longer,
because Django looks for an event loop each time.
"""


def run_sql(statement: str, values: Sequence[Any]) -> list[Any]:
    """Runs a statement and returns its rows.

    Args:
        statement: has ``%s`` for each value and no other percent sign. Its text must not contain values.

    Raises:
        DatabaseError: the same as from a Django cursor.
    """
    database = transaction_database.get() or connections[DEFAULT_DB_ALIAS]
    direct = _driver_connection(database)
    if direct is not None:
        with database.wrap_database_errors:
            return direct.execute(_for_sqlite(statement), values).fetchall()
    with database.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


def run_sql_for_each(statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Runs a statement without results once for each row of values, see :func:`run_sql`."""
    if len(rows) == 1:
        run_sql(statement, rows[0])
        return
    if not rows:
        return
    if len(rows) > _ROWS_AT_ONCE:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            run_sql_for_each(statement, rows[start : start + _ROWS_AT_ONCE])
        return
    database = transaction_database.get() or connections[DEFAULT_DB_ALIAS]
    direct = _driver_connection(database)
    if direct is not None:
        with database.wrap_database_errors:
            direct.executemany(_for_sqlite(statement), rows)
        return
    with database.cursor() as cursor:
        cursor.executemany(statement, rows)


def _driver_connection(database: Any) -> Connection | None:
    """SQLite's connection. None on PostgreSQL, or if Django has to log or refuse statements."""
    if not on_sqlite() or database.force_debug_cursor or in_debug_mode() or database.needs_rollback:
        return None
    if wrappers := database.execute_wrappers:
        limit = wrappers[0]
        if type(limit) is not TransactionLimit or len(wrappers) > 1:
            return None
        if monotonic() > limit.until:
            limit.refuse()
    if database.connection is None:  # checked here: ensure_connection first looks for an event loop
        database.ensure_connection()
    direct: Connection = database.connection
    return direct


@lru_cache(256)
def _for_sqlite(statement: str) -> str:
    return statement.replace("%s", "?")
