"""Purges sessions in another thread while an operation runs."""

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from historyapp.core.errors import PlayheadError
from historyapp.models import Project, Session
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session

_WAIT_SECONDS = 0.1
"""A purge may wait for locks of the operation. After this time, the operation continues."""
_MAX_SECONDS = 120


class Interrupter:
    """Counts the statements of this thread's connection, and starts a purge before one of them.

    Args:
        before: the number of the statement, from 1. If the operation has fewer, nothing is purged.
    """

    def __init__(self, project: Project, before: int) -> None:
        self._project, self._before, self._statements = project, before, 0
        self._purge = threading.Thread(target=self._purge_everything, daemon=True)
        self._error: Exception | None = None

    def run(self, operation: Callable[[], object]) -> bool:
        """Returns whether the purge ran. Waits for its end.

        Raises:
            Exception: of the operation, or of the purge.
        """
        try:
            with connection.execute_wrapper(self._count):
                operation()
        finally:
            if self._statements >= self._before:
                self._purge.join(_MAX_SECONDS)
        assert not self._purge.is_alive()
        if self._error is not None:
            raise self._error
        return self._statements >= self._before

    def _count(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self._statements += 1
        if self._statements == self._before:
            self._purge.start()
            has_lock = connection.in_atomic_block or sql.startswith(("BEGIN", "PRAGMA"))
            self._purge.join(_WAIT_SECONDS if has_lock else _MAX_SECONDS)
        return execute(sql, params, many, context)

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
