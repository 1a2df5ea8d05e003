"""Purges sessions in another thread while an operation runs."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from historyapp.core.errors import PlayheadError
from historyapp.models import Project, Session
from historyapp.services import transactions
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session

_WAIT_SECONDS = 0.1
"""A purge may wait for locks of the operation. After this time, the operation continues."""
_MAX_SECONDS = 120
_CLAIM = 'INSERT INTO "historyapp_idempotencykey"'
"""The first write of a request, before it has read or locked a session in its transaction."""


class Interrupter:
    """Starts a purge in the middle of an operation, at one of the points that it counts in this thread.

    Args:
        before: the number of the point, from 1. If the operation has fewer, nothing is purged.
        writes_alone: count only the points where a purge can do most harm, because what is written next was
            read before. These are before each transaction and, on PostgreSQL, before the first write of each
            transaction and savepoint: there a purge waits for locks alone, not for the end of transactions.
            Otherwise each statement is counted.
    """

    def __init__(self, project: Project, before: int, *, writes_alone: bool = False) -> None:
        self._project, self._before, self._points = project, before, 0
        self._writes_alone, self._has_written = writes_alone, False
        self._purge = threading.Thread(target=self._purge_everything, daemon=True)
        self._error: Exception | None = None

    def run(self, operation: Callable[[], object]) -> bool:
        """Returns whether the purge ran. Waits for its end.

        Raises:
            Exception: of the operation, or of the purge.
        """
        try:
            with self._transactions(), connection.execute_wrapper(self._statement):
                operation()
        finally:
            if self._points >= self._before:
                self._purge.join(_MAX_SECONDS)
        assert not self._purge.is_alive()
        if self._error is not None:
            raise self._error
        return self._points >= self._before

    @contextmanager
    def _transactions(self) -> Iterator[None]:
        usual, thread = transactions._write_transaction, threading.get_ident()
        lock: Any = transactions._sqlite_writer

        @contextmanager
        def write(*arguments: Any) -> Iterator[None]:
            is_inner = connection.in_atomic_block or lock._is_owned()
            if self._writes_alone and threading.get_ident() == thread and not is_inner:
                self._pass(_MAX_SECONDS)
            with usual(*arguments):
                yield

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transactions, "_write_transaction", write)
            yield

    def _statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not self._writes_alone or self._is_first_write(sql):
            has_lock = connection.in_atomic_block or sql.startswith(("BEGIN", "PRAGMA"))
            self._pass(_WAIT_SECONDS if has_lock else _MAX_SECONDS)
        return execute(sql, params, many, context)

    def _is_first_write(self, sql: str) -> bool:
        if connection.vendor == "sqlite" or sql.startswith(_CLAIM):
            return False
        if not connection.in_atomic_block or sql.startswith("SAVEPOINT"):
            self._has_written = False
        elif not self._has_written and sql.startswith(("INSERT", "UPDATE", "DELETE")):
            self._has_written = True
            return True
        return False

    def _pass(self, wait: float) -> None:
        self._points += 1
        if self._points == self._before:
            self._purge.start()
            self._purge.join(wait)

    def _purge_everything(self) -> None:
        try:
            purge_everything(self._project)
        except Exception as error:  # noqa: BLE001 the test's thread raises it
            self._error = error
        finally:
            connection.close()


def purge_everything(project: Project, sessions: Collection[UUID] | None = None) -> None:
    """Archives and purges sessions of a project; None: all."""
    ids = sessions or list(Session.objects.filter(project=project).values_list("pk", flat=True))
    for id in ids:
        with suppress(PlayheadError):
            change_session(project, id, {"status": Session.Status.ARCHIVED})
    purge(project, ids, timezone.now() + timedelta(days=1))


def purge_after(monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, session: Session) -> None:
    """Lets a function of a module purge the session before it returns."""
    usual = getattr(module, function)

    def purging(*arguments: Any) -> Any:
        result = usual(*arguments)
        purge_everything(session.project, [session.pk])
        return result

    monkeypatch.setattr(module, function, purging)
