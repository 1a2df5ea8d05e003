"""The time limit of one write transaction, because other writers wait for its end."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, NoReturn

from django.db import OperationalError, connection

from historyapp.models.vendor import on_sqlite
from historyapp.wire.problems import TransactionTooLong

RETRY_AFTER = 10
_CANCEL_SECONDS = 2.0
"""How long a request to PostgreSQL to cancel a statement may take."""
_CANCELLED = "57014"
"""PostgreSQL's code of a cancelled statement."""
_ENDINGS = ("ROLLBACK TO", "RELEASE")
"""The first words of statements that end a savepoint. Django needs them to roll back."""

_interrupting = Lock()


class TransactionLimit:
    """Refuses the statements that would start after the limit. :meth:`interrupt` ends one that runs.

    It is an item of Django's ``execute_wrappers`` while the transaction is open.

    Args:
        database: Django's connection, within the transaction.
        seconds: counted from now.
    """

    __slots__ = ("_database", "_has_refused", "_is_open", "_seconds", "started", "until")

    def __init__(self, database: Any, seconds: float) -> None:
        self._database: Any = database
        self._seconds = seconds
        self._is_open = True
        self._has_refused = False
        self.started = time.monotonic()
        self.until = self.started + seconds

    def __call__(self, execute: Callable[..., Any], sql: Any, *arguments: Any) -> Any:
        """Runs a statement of a Django cursor, or refuses it."""
        if time.monotonic() > self.until and not str(sql).startswith(_ENDINGS):
            self.refuse()
        try:
            return execute(sql, *arguments)
        except OperationalError as error:  # on PostgreSQL, a caller could roll back to a savepoint
            if time.monotonic() > self.until and _is_interruption(error):
                self._has_refused = True
            raise

    def refuse(self) -> NoReturn:
        """Raises ``TransactionTooLong``. The transaction can no longer be committed."""
        self._has_refused = True
        raise self.error()

    def error(self) -> TransactionTooLong:
        seconds = "1 second" if self._seconds == 1 else f"{self._seconds:g} seconds"
        return TransactionTooLong(
            f"Storing this took more than {seconds}, and others had to wait. Nothing was "
            "stored. Send less at once, in several requests. If the request is small already, the server is "
            "overloaded: send it again later.",
            retry_after=RETRY_AFTER,
        )

    def interrupt(self) -> None:
        """Ends the running statement, if the transaction is still open. Called by another thread."""
        with _interrupting:  # a later transaction of the same connection must not be interrupted
            if not self._is_open:
                return
            if on_sqlite():
                self._database.connection.interrupt()
            else:
                with suppress(Exception):  # it is tried again
                    self._database.connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def is_lost(self, error: Exception | None = None) -> bool:
        """Whether the limit has ended a statement, so that nothing can be stored.

        Args:
            error: the error that ends the transaction; None if it is about to be committed. Then an error of
                a statement may have been caught.
        """
        if time.monotonic() <= self.until:
            return False
        if self._has_refused or error is not None:
            return self._has_refused or _is_interruption(error)
        driver = self._database.connection
        if on_sqlite():  # which rolls back the transaction of an interrupted write
            return driver is not None and not driver.in_transaction
        return driver is not None and driver.info.transaction_status.name == "INERROR"

    def end(self) -> None:
        """Ends the limit before the transaction is committed or rolled back."""
        self._database.execute_wrappers.remove(self)
        self._is_open = False
        if time.monotonic() > self.until:
            with _interrupting:  # waits for the end of an interruption that has begun
                pass


def check_time() -> None:
    """Refuses to go on if the limit of this thread's transaction is over. Called by loops without statements,
    which nothing else ends.
    """
    for limit in connection.execute_wrappers:
        if type(limit) is TransactionLimit and time.monotonic() > limit.until:
            limit.refuse()


def _is_interruption(error: Exception | None) -> bool:
    cause = error and (error.__cause__ or error)
    code, state = getattr(cause, "sqlite_errorcode", None), getattr(cause, "sqlstate", None)
    return code == sqlite3.SQLITE_INTERRUPT or state == _CANCELLED
