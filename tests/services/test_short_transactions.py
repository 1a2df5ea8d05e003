"""Many rows are deleted in short transactions with pauses."""

import threading
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from historyapp.models import AuditRecord, Project, Session, Webhook, WebhookDelivery
from historyapp.services import short_transactions
from historyapp.services.append import append
from historyapp.services.changes import prune_changes
from historyapp.services.transactions import giving_way
from historyapp.services.webhooks import endpoints
from tests.services.drafts import ask

BODY = b64encode(Random(1).randbytes(1_000_000)).decode()
"""About 1 MB as stored: SQLite keeps bodies compressed."""


@pytest.fixture
def webhook(project: Project) -> Webhook:
    """A webhook with six ended deliveries of 1 MB each."""
    webhook = endpoints.create_webhook(project, "https://example.com/hook")
    for _ in range(6):
        endpoints.send_test(project, webhook.pk)
    WebhookDelivery.objects.update(body=BODY, state=WebhookDelivery.State.SUCCEEDED)
    return webhook


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses on SQLite, whose other processes only poll for the lock."""
    seconds: list[float] = []
    monkeypatch.setattr("historyapp.services.short_transactions.time.sleep", seconds.append)
    return seconds


def delete_webhook(webhook: Webhook) -> None:
    endpoints.delete_webhook(webhook.project, webhook.pk)


def prune_deliveries(webhook: Webhook) -> None:
    assert endpoints.prune_deliveries(timedelta(0)) == 6


@pytest.mark.parametrize("delete", [delete_webhook, prune_deliveries])
@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="only SQLite has one writer at a time")
def test_long_deliveries_are_deleted_with_pauses(
    webhook: Webhook, pauses: list[float], delete: Callable[[Webhook], None]
) -> None:
    """A transaction deletes 4 MB, so six deliveries of 1 MB take two."""
    delete(webhook)
    assert not WebhookDelivery.objects.exists()
    assert len(pauses) == 2
    assert all(pauses)


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="only SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_a_short_transaction_that_gives_way_pauses_once_and_not_for_its_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bulk actions that erase paused three times as long as their transactions took."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        threading.Event().wait(0.3)

    with giving_way(), monkeypatch.context() as patched:
        patched.setattr("historyapp.services.transactions.time.sleep", sleep)
        with short_transactions.short_transaction() as timed:
            pass
    assert len(pauses) == 1
    assert 0 < timed.seconds < 0.3, "the size of the next part depends on it"


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="only SQLite has one writer at a time")
def test_changes_are_deleted_with_pauses(
    project: Project, session: Session, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.changes.PRUNED_AT_ONCE", 3)
    for _ in range(5):
        append(project, session.pk, [ask("go")])
    assert prune_changes(timedelta(0)) >= 4
    assert len(pauses) >= 2


def test_postgres_sends_the_lengths_of_many_rows_at_once(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Each chunk is a request to the server, and a part has up to 5,000 rows. SQLite reads whole texts for
    their lengths, so there the rows are read one at a time."""
    chunks, iterator = list[int](), QuerySet.iterator

    def noted(rows: Any, chunk_size: int) -> Any:
        chunks.append(chunk_size)
        return iterator(rows, chunk_size)

    monkeypatch.setattr(QuerySet, "iterator", noted)
    now = timezone.now()
    AuditRecord.objects.bulk_create(
        AuditRecord(project=project, action="test", detail={}, created_at=now) for _ in range(50)
    )
    short_transactions.delete_in_parts(AuditRecord.objects.filter(action="test"), "id")
    assert not AuditRecord.objects.filter(action="test").exists()
    is_postgres = request.config.getoption("database") == "postgres"
    assert min(chunks) == (short_transactions._FIRST_ROWS if is_postgres else 1)
