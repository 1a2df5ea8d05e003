"""Carrying out a request once, however often it is sent (the ``Idempotency-Key`` header)."""

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
    """What was answered to a request."""

    status: int
    body: str
    replayed: bool = False
    """Whether it is the answer to an earlier, equal request."""


def earlier(project: Project, key: str, fingerprint: str) -> StoredResponse | None:
    """The first answer to a request that came with the same key before; None when it is new.

    Raises:
        Invalid: as :func:`once`.
    """
    _check(key)
    row = IdempotencyKey.objects.filter(project=project, key=key).first()
    return _replayed(row, fingerprint) if row else None


def once(
    project: Project, key: str, fingerprint: str, carry_out: Callable[[], StoredResponse]
) -> StoredResponse:
    """The answer of ``carry_out``, or the first one where the same request came with the same key before.

    Key and write are one transaction, so that of two equal requests at once the second waits for the first.
    A request that fails leaves no trace of its key: nothing was written, and trying again may succeed.

    Raises:
        Invalid: for a malformed key, and for one that came with another request before.
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
        raise Invalid("This Idempotency-Key came with another request before. Use a new key.")
    return StoredResponse(row.status, row.response, replayed=True)
