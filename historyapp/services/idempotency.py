"""Executing a request once, however often it is sent (the ``Idempotency-Key`` header)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.models import IdempotencyKey, Project
from historyapp.services.transactions import writing

KEPT = timedelta(days=7)
_PURGE_EVERY = 100
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response to a request."""

    status: int
    body: str
    replayed: bool = False
    """Whether it is the response to an earlier, equal request."""


def earlier(project: Project, key: str, fingerprint: str) -> StoredResponse | None:
    """The response to an earlier request with the same key, or None for a new key.

    Raises:
        Invalid: as :func:`once`.
    """
    _check(key)
    row = IdempotencyKey.objects.filter(project=project, key=key).first()
    return _replayed(row, fingerprint) if row else None


def once(
    project: Project, key: str, fingerprint: str, carry_out: Callable[[], StoredResponse]
) -> StoredResponse:
    """The response of ``carry_out``, or the stored one if the same request came before with the same key.

    Storing the key and carrying out the request are one transaction, so the second of two equal requests
    waits for the first. A failed request stores no key: nothing was written, and a retry may succeed.

    Raises:
        Invalid: for a malformed key, and for a key that came before with another request.
    """
    _check(key)
    with writing():
        row, is_new = IdempotencyKey.objects.get_or_create(
            project=project, key=key, defaults={"fingerprint": fingerprint, "status": 0, "response": ""}
        )
        if not is_new:
            return _replayed(row, fingerprint)
        answer = carry_out()
        row.status, row.response = answer.status, answer.body
        row.save(update_fields=["status", "response"])
        if row.pk % _PURGE_EVERY == 0:
            IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
        return answer


def _check(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise Invalid("Idempotency-Key must be 1 to 255 visible ASCII characters, without spaces.")


def _replayed(row: IdempotencyKey, fingerprint: str) -> StoredResponse:
    if row.fingerprint != fingerprint:
        raise Invalid("This Idempotency-Key was used for another request. Use a new key.")
    return StoredResponse(row.status, row.response, replayed=True)
