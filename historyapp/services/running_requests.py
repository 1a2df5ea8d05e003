"""Keeps a long request from being carried out twice while it runs (the ``Idempotency-Key`` header).

A request that writes in one transaction needs no such care: an equal one waits for its end. A model call
takes up to 15 minutes and is paid, and a client may have sent it again after a time limit of its own.
"""

import logging
import time
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar
from uuid import UUID, uuid4

from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import QuerySet

from historyapp.models import IdempotencyKey, Project
from historyapp.models.database_clock import claim_now
from historyapp.services.connections import release_connection
from historyapp.services.idempotency import (
    RUNNING_FOR,
    STATUS_RUNNING,
    StoredResponse,
    running_times,
    still_running,
    store_response,
)
from historyapp.services.transactions import writing
from historyapp.wire.problems import ServerUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

RENEW_SECONDS = 30.0
"""Seconds between two renewals. A call may also sleep for a minute before its provider's next attempt."""


class RunningRequest:
    """A request whose key is stored from its beginning. The key is deleted if the request fails."""

    def __init__(self, project: Project, key: str, fingerprint: str, session: UUID) -> None:
        """``session``: the session that the request concerns. A purge of it finds the key by it."""
        self._key = IdempotencyKey(
            project=project,
            key=key,
            fingerprint=fingerprint,
            status=STATUS_RUNNING,
            response=uuid4().hex,  # of this attempt, because another one may take the key over
            sessions=str(session),
        )
        self._next_renewal = 0.0

    def watch(self, items: Generator[T]) -> Generator[T]:
        """Yields the items of the generator that carries out the request. Items must come every minute.

        Raises:
            Conflict: when an equal request is running, or has ended just now.
        """
        self._begin()
        try:
            with closing(items):
                for item in items:
                    if time.monotonic() >= self._next_renewal:
                        self._renew()
                    yield item
        except BaseException:  # including the end of a request that was cancelled
            self._end()
            raise

    def store(self, response: StoredResponse) -> None:
        """Stores the response, within the transaction of the request's writes."""
        row = self._own().select_for_update().first()
        # Otherwise its session was purged, or an equal request runs: this one was not renewed in time.
        if row is not None:
            store_response(row, response)

    def _begin(self) -> None:
        with writing():
            self._key.created_at = claim_now()
            same = IdempotencyKey.objects.filter(project=self._key.project_id, key=self._key.key)
            same.filter(status=STATUS_RUNNING).exclude(created_at__range=running_times()).delete()
            try:
                with transaction.atomic():
                    self._key.save(force_insert=True)
            except IntegrityError:
                raise still_running() from None
        self._next_renewal = time.monotonic() + RENEW_SECONDS

    def _renew(self) -> None:
        self._next_renewal = time.monotonic() + RENEW_SECONDS
        try:
            with writing():
                self._own().update(created_at=claim_now())
        except (OperationalError, InterfaceError, ServerUnavailable) as error:
            log.warning("The Idempotency-Key of a running request was not renewed: %s", error)
        release_connection()

    def _end(self) -> None:
        try:
            with writing():
                self._own().delete()
        except (OperationalError, InterfaceError, ServerUnavailable) as error:
            log.warning("The Idempotency-Key of a failed request stays for %s: %s", RUNNING_FOR, error)
        release_connection()

    def _own(self) -> QuerySet[IdempotencyKey]:
        return IdempotencyKey.objects.filter(
            pk=self._key.pk, status=STATUS_RUNNING, response=self._key.response
        )
