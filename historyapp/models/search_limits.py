"""Ends statements of searches that take too long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction

from historyapp.models.vendor import on_sqlite
from historyapp.models.wal_size import excessive_wal
from historyapp.wire.problems import SearchTooSlow

LOG_SECONDS = 1.0
"""The limit of a statement while SQLite's log of changes is too long: the log cannot be emptied while a
statement uses it, and writers wait for that."""
LIST_SECONDS = 20.0
"""The limit of a list of sessions, its facets or its groups, and of a project's figures."""
TOO_SLOW = "The search took longer than {limit}. Add a word or a filter, or a longer prefix."
OPERATIONS = 10_000
"""SQLite checks the time after so many operations, about a millisecond."""


class SearchLimit:
    """The limit of one search. It is an item of Django's ``execute_wrappers`` meanwhile."""

    def __init__(self, seconds: float, text: str) -> None:
        self._text = text
        self._started = self._since = time.monotonic()
        self._seconds = seconds
        self._is_shorter = False
        """Whether the log was too long when a statement had run for :data:`LOG_SECONDS`."""

    @property
    def is_over(self) -> bool:
        return self._is_shorter or time.monotonic() > self._started + self._seconds

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a statement of a Django cursor."""
        if self.is_over:
            raise OperationalError("no time is left for another statement")
        self._since = time.monotonic()
        return execute(*arguments)

    def must_end(self) -> bool:
        """Called by SQLite while a statement runs: whether to end it."""
        if time.monotonic() > self._since + LOG_SECONDS:
            with suppress(OSError):
                self._is_shorter = excessive_wal(str(connection.settings_dict["NAME"])) > 0
        return self.is_over

    def error(self) -> SearchTooSlow:
        limit = "a second, while much is stored" if self._is_shorter else f"{self._seconds:g} seconds"
        return SearchTooSlow(self._text.format(limit=limit))


@contextmanager
def limit_statements(seconds: float, text: str = TOO_SLOW) -> Iterator[None]:
    """Ends the block if its statements take too long, individually or in total.

    On PostgreSQL the block is one transaction. On SQLite it is none: a transaction holds the write lock.

    Args:
        text: the error's detail, with ``{limit}`` for the limit.

    Raises:
        SearchTooSlow: if a statement was ended, or would start after the time limit.
    """
    limit = SearchLimit(seconds, text)
    block = _watched_statements(limit) if on_sqlite() else _limited_transaction(seconds)
    try:
        with block, connection.execute_wrapper(limit):
            yield
    except OperationalError as error:
        if not limit.is_over:
            raise
        raise limit.error() from error


@contextmanager
def _limited_transaction(seconds: float) -> Iterator[None]:
    seconds = min(seconds, settings.PLAYHEAD_STATEMENT_SECONDS)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")
        yield


@contextmanager
def _watched_statements(limit: SearchLimit) -> Iterator[None]:
    connection.ensure_connection()
    connection.connection.set_progress_handler(limit.must_end, OPERATIONS)
    try:
        yield
    finally:
        if connection.connection is not None:
            connection.connection.set_progress_handler(None, 0)
