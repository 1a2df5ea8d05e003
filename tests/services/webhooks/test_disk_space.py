"""Deliveries take little space, and none while the disk is nearly full."""

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from historyapp.models import Project, WebhookDelivery
from historyapp.models.sql import fetch_all
from historyapp.models.vendor import on_sqlite
from historyapp.services.sessions import create_session
from tests.services.webhooks.conftest import Work
from tests.services.webhooks.receiver import Receiver, Reply
from tests.services.webhooks.test_delivery import RUN, run_once


def test_no_delivery_is_created_while_the_disk_is_nearly_full(
    project: Project, receiver: Receiver, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small appends to sessions with long titles filled a disk with deliveries to twenty webhooks."""
    create_session(project)
    work()
    run_once(project)
    with monkeypatch.context() as full:
        disk = SimpleNamespace(free=0, total=1 << 40)
        full.setattr("historyapp.services.disk_space.shutil.disk_usage", lambda _: disk)
        work()
    assert receiver.types() == RUN[:1]
    work()
    work()
    assert receiver.types() == [*RUN[:1], *RUN]


def test_deliveries_are_stored_compressed(project: Project, receiver: Receiver, work: Work) -> None:
    """A title of 300 emoji takes 3,600 characters of the body, and the target fills the log."""
    title = "\U0001f600" * 300
    receiver.answer = lambda request: Reply(500, b"\xff" * 1024)
    create_session(project, names={"title": title})
    for _ in range(3):
        work()
    delivery = WebhookDelivery.objects.get()
    assert title in json.loads(delivery.body)["data"]["session"]["title"]
    assert [attempt["answer"] for attempt in delivery.log] == ["\ufffd" * 1024] * 3
    [lengths] = fetch_all("SELECT length(body), length(log) FROM historyapp_webhookdelivery", [])
    assert max(lengths) < (1_000 if on_sqlite() else 20_000)  # PostgreSQL compresses by itself


@pytest.mark.skipif("config.getoption('database') == 'postgres'", reason="compressed on SQLite only")
def test_undoing_the_migration_leaves_plain_texts(project: Project, work: Work) -> None:
    create_session(project, names={"title": "a title " * 30})
    work()
    body = WebhookDelivery.objects.get().body
    import_module("historyapp.migrations.0063_packed_deliveries").decompress(
        apps, SimpleNamespace(connection=connection)
    )
    assert fetch_all("SELECT body FROM historyapp_webhookdelivery", []) == [(body,)]
