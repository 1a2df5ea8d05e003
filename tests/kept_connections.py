"""A pytest plugin that keeps connections to PostgreSQL which the product closes, for later ones like them.

Threads of the product close their connections before they wait for something. For each new one the server
starts a process, which reads the catalog again: that took a quarter of its processor time.
"""

import os
import select
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import pytest
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.pq import ExecStatus, TransactionStatus

_MAX_KEPT = 8
"""Few tests use more at a time."""


class KeptConnections:
    """The closed connections of this process to a database.

    Args:
        database: its name.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._free: list[psycopg.Connection] = []
        self._parameters = WeakKeyDictionary[psycopg.Connection, dict[str, Any]]()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A forked process makes its own."""
        self._free, self._lock = [], threading.Lock()

    def connect(self, conninfo: str = "", **parameters: Any) -> psycopg.Connection:
        """Returns a kept connection that was made with these parameters, or a new one.

        Django passes no ``conninfo``. Tests that do get a new connection.
        """
        if conninfo:
            return psycopg.Connection.connect(conninfo, **parameters)
        while free := self._take(parameters):
            # From a connection that the server ended, there is something to read.
            if not select.select([free.fileno()], [], [], 0)[0]:
                return free
            free.close()
        made = psycopg.Connection.connect(**parameters)
        if parameters.get("dbname") == self._database:
            self._parameters[made] = parameters
        return made

    def _take(self, parameters: dict[str, Any]) -> psycopg.Connection | None:
        with self._lock:
            for place, free in enumerate(self._free):
                if self._parameters[free] == parameters:
                    return self._free.pop(place)
        return None

    def keep(self, used: psycopg.Connection | None) -> bool:
        """Makes the session of a connection as new and keeps it. Returns whether it did."""
        if used is None or used.closed or used not in self._parameters:
            return False
        if used.pgconn.transaction_status != TransactionStatus.IDLE or len(self._free) >= _MAX_KEPT:
            return False
        if used.pgconn.exec_(b"DISCARD ALL").status != ExecStatus.COMMAND_OK:
            return False
        with self._lock:
            self._free.append(used)
        return True

    def close(self) -> None:
        """Closes them: a database that has connections cannot be dropped."""
        while self._free:
            self._free.pop().close()


@pytest.fixture(scope="session", autouse=True)
def _connections_are_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    if connection.vendor == "sqlite":
        yield
        return
    request.getfixturevalue("django_db_setup")
    kept = KeptConnections(connection.settings_dict["NAME"])
    usual = DatabaseWrapper._close  # type: ignore[attr-defined]  # the stubs do not know it

    def close(wrapper: Any) -> None:
        if kept.keep(wrapper.connection):
            wrapper.connection = None
        else:
            usual(wrapper)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "connect", kept.connect)
        patch.setattr(DatabaseWrapper, "_close", close)
        yield
    kept.close()
