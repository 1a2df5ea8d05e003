"""Carries out a request once, even if it is sent several times (the ``Idempotency-Key`` header)."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db import IntegrityError
from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid
from historyapp.models import IdempotencyKey, Project, Session
from historyapp.models.database_clock import CLOCK, claim_now, database_now
from historyapp.models.projects import PURGED
from historyapp.models.run_sql import run_sql
from historyapp.models.vendor import on_sqlite
from historyapp.services.transactions import held_values, writing, writing_together

KEPT_FOR = timedelta(days=7)
KEPT_CHARACTERS = 1 << 20
"""A longer response is not stored. Even a short request can have a response of many MB, such as a recorded
context."""
_PURGE_EVERY, _PURGED_AT_ONCE = 10, 20
"""Each tenth key deletes up to this many old ones. Other requests wait for it, and responses may be long."""
_MIN_KEPT_KEYS = 1_000
"""This many of the newest keys are kept at any age, because the clock may be wrong."""
_LOCK_SESSION = "SELECT FROM historyapp_session WHERE id = %s AND project_id = %s FOR NO KEY UPDATE"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_STATUS_PURGED = 409
"""The status of a stored response that was emptied because its session was purged."""
_STATUS_TOO_LONG = 413
"""The status of a stored response that was too long to keep."""
STATUS_RUNNING = 102
"""The status of a key whose request is still running; see :mod:`running_requests`."""
RUNNING_FOR = timedelta(minutes=3)
"""A running request renews the time of its key. After this time without it, its process was killed."""
_RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response to a request."""

    status: int
    body: str | None
    """None: too long to keep, and not yet made."""
    sessions: frozenset[UUID] = frozenset()
    """The sessions in the request or the response. The stored response is emptied when one of them is
    purged."""
    replayed: bool = False
    """Whether it is the stored response to an earlier, equal request."""


def find_stored_response(project: Project, key: str, fingerprint: str) -> StoredResponse | None:
    """The response to an earlier request with the same key, or None if the key is new.

    Raises:
        Invalid, Conflict: as :func:`carry_out_once`.
    """
    _check_key(key)
    row = IdempotencyKey.objects.filter(project=project, key=key).first()
    if row is None or (row.status == STATUS_RUNNING and abs(claim_now() - row.created_at) > RUNNING_FOR):
        return None
    return _replayed(row, fingerprint)


def carry_out_once(
    project: Project,
    key: str,
    fingerprint: str,
    carry_out: Callable[[], StoredResponse],
    *,
    session: UUID | None = None,
) -> StoredResponse:
    """The response of ``carry_out``, or the stored response if the same request was sent before with this
    key.

    Storing the key and carrying out the request are one transaction, so the second of two equal requests
    waits for the first. It begins with the first write of ``carry_out``: what the request computes before
    that delays no other writer. A failed request stores no key: nothing was written, and a retry may succeed.

    Args:
        session: the session that the request changes, if it is one.

    Raises:
        Invalid: for a malformed key, and for a key that was used for another request.
        Conflict: when the session of the earlier request was purged, or its response was too long to keep, or
            it is still running.
    """
    if earlier := find_stored_response(project, key, fingerprint):
        return earlier
    row = IdempotencyKey(project=project, key=key, fingerprint=fingerprint, status=0, response="")
    try:
        with writing_together(partial(_claim, row, session)):
            response = carry_out()
            with writing():
                store_response(row, response)
    except _AlreadyCarriedOut:
        return _replayed(IdempotencyKey.objects.get(project=project, key=key), fingerprint)
    return response


class _AlreadyCarriedOut(Exception):
    """Another thread has carried out a request with the same key."""


def _claim(row: IdempotencyKey, session: UUID | None) -> None:
    """Stores the key, so that an equal request waits for the end of this transaction.

    On PostgreSQL the session is locked before. A transaction that waits for it has written nothing yet, so
    the feed of changes does not wait for this transaction.
    """
    if session is not None and not on_sqlite():
        run_sql(_LOCK_SESSION, [session, row.project_id])
    try:
        row.save(force_insert=True)
    except IntegrityError:
        raise _AlreadyCarriedOut from None


def store_response(row: IdempotencyKey, response: StoredResponse) -> None:
    """Stores the response to a request, within the transaction of its writes."""
    body, changed = response.body, list[str]()
    if row.status == STATUS_RUNNING:
        row.created_at, changed = timezone.now(), ["created_at"]  # until now a time of another clock
    is_kept = body is not None and len(body) <= KEPT_CHARACTERS
    row.status, row.response = (response.status, body or "") if is_kept else (_STATUS_TOO_LONG, "")
    if response.sessions and _is_any_hidden(response.sessions):
        row.status, row.response = _STATUS_PURGED, ""
    row.sessions = " ".join(sorted(str(id) for id in response.sessions))
    row.save(update_fields=["status", "response", "sessions", *changed])
    if row.pk % _PURGE_EVERY == 0:
        _delete_old(row.pk - _MIN_KEPT_KEYS)


def _delete_old(newest: int) -> None:
    """Deletes some of the keys that are no longer kept. ``newest``: the highest primary key to delete."""
    if CLOCK.was_just_set():
        return  # other keys can number a thousand within seconds
    old = IdempotencyKey.objects.filter(created_at__lt=database_now() - KEPT_FOR, pk__lte=newest)
    old = old.exclude(status=STATUS_RUNNING, created_at__range=running_times())
    locked = old.select_for_update(skip_locked=True).order_by("created_at").values_list("pk", flat=True)
    IdempotencyKey.objects.filter(pk__in=list(locked[:_PURGED_AT_ONCE])).delete()


def _is_any_hidden(sessions: Collection[UUID]) -> bool:
    """Whether a purge has hidden one of the sessions. Otherwise it waits for the end of the caller's
    transaction, and then finds the stored response."""
    rows = Session.objects.filter(pk__in=list(sessions)).order_by("pk")
    return PURGED in held_values(rows.values_list("project_id", flat=True))


class PurgedResponses:
    """The stored responses about sessions that are purged.

    The keys stay, so that a repeated request is refused and does not create the session again.
    """

    def __init__(self, project: UUID, sessions: Collection[UUID]) -> None:
        self._rows = IdempotencyKey.objects.filter(project=project).exclude(status=_STATUS_PURGED)
        self._wanted, self._last = {str(id) for id in sessions}, 0
        self._found: dict[str, list[int]] = {}

    def take_keys(self, session: UUID) -> list[int]:
        """The primary keys of the responses about a session to which no response is added any more.

        On SQLite, reads only the keys that were added since the last call. On PostgreSQL a later key may have
        a lower number, so it reads all keys of the project again.
        """
        if not on_sqlite():
            self._last = 0
            self._found.clear()
        rows = self._rows.filter(pk__gt=self._last).order_by("pk").values_list("pk", "sessions")
        for pk, sessions in rows.iterator():
            # Rows of earlier versions do not name their sessions, so they count for all.
            for id in self._wanted if sessions is None else self._wanted.intersection(sessions.split()):
                self._found.setdefault(id, []).append(pk)
            self._last = pk
        return self._found.pop(str(session), [])


def empty_responses(keys: Collection[int]) -> None:
    """Empties stored responses, within the caller's transaction."""
    IdempotencyKey.objects.filter(pk__in=keys).update(status=_STATUS_PURGED, response="")


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise Invalid("Idempotency-Key must be 1 to 255 visible ASCII characters, without spaces.")


def running_times() -> tuple[datetime, datetime]:
    """The times of keys whose requests are still running."""
    now = claim_now()
    return now - RUNNING_FOR, now + RUNNING_FOR


def still_running() -> Conflict:
    """The error of a request that is equal to one that has not ended."""
    return Conflict(
        "An equal request with this Idempotency-Key is still running and is not carried out twice. Send it "
        f"again after {_RETRY_SECONDS} seconds to get its response. If its server was killed, the key is "
        f"free after {RUNNING_FOR.seconds // 60} minutes.",
        retry_after=_RETRY_SECONDS,
    )


def _replayed(row: IdempotencyKey, fingerprint: str) -> StoredResponse:
    if row.fingerprint != fingerprint:
        raise Invalid("This Idempotency-Key was used for another request. Use a new key.")
    if row.status == STATUS_RUNNING:
        raise still_running()
    if row.status == _STATUS_PURGED:
        raise Conflict("This request was carried out before, but its session has since been purged.")
    if row.status == _STATUS_TOO_LONG:
        raise Conflict(
            "This request was carried out before, but its response was too long to keep (over "
            f"{KEPT_CHARACTERS:,} characters). Read the result, or send the request with a new key."
        )
    return StoredResponse(row.status, row.response, replayed=True)
