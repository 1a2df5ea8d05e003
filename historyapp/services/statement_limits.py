"""Limits how long a PostgreSQL statement waits for a lock or runs, and how long a transaction stays idle.

Without these limits, one client that stalls within a transaction would lock its rows forever, and statements
with a bad plan could occupy all threads of the server. On SQLite, :mod:`historyapp.services.transactions`
limits the waits.
"""

from typing import Any

from django.conf import settings
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

IDLE_SECONDS = 120
"""A transaction without a statement for this long belongs to a process that was suspended or cut off."""
AFTER_LIMIT_SECONDS = 10
"""The same in processes that limit their transactions, in addition to that limit. The feed of changes of all
projects stands still meanwhile."""
_SET_WAITS = """
SELECT set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false)
"""


def limit_waits(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Sets the limits of a new connection (a receiver of ``connection_created``)."""
    _set_limits(connection, settings.PLAYHEAD_WRITE_SECONDS, IDLE_SECONDS)


def limit_idle_time(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Sets a shorter limit for a new connection of a process that limits its transactions."""
    if connection.vendor == "postgresql":
        seconds = min(IDLE_SECONDS, settings.PLAYHEAD_TRANSACTION_SECONDS + AFTER_LIMIT_SECONDS)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [f"{seconds}s"]
            )


def limit_run_time(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Sets the limit of a new connection of a web process. Workers and commands have none."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            limit = f"{settings.PLAYHEAD_STATEMENT_SECONDS}s"
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [limit])


def wait_without_limits(**_: Any) -> None:
    """Removes the limits until the connection is closed: migrations wait for each other and take long."""
    _set_limits(connection, 0, 0)


def _set_limits(connection: BaseDatabaseWrapper, lock_seconds: int, idle_seconds: int) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_SET_WAITS, [f"{lock_seconds}s", f"{idle_seconds}s"])
