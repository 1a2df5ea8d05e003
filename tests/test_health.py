"""The health checks respond as load balancers expect."""

import json
import socket
import time
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models import QueuedMessage, Worker
from historyapp.models.workers import SILENCE
from historyapp.services.workers import forget_worker, note_worker
from tests.redis import redis_server


def test_healthz_needs_no_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


def parts(client: Client) -> tuple[str, dict[str, str]]:
    """Of an answer that lets requests come."""
    response = client.get("/readyz")
    assert response.status_code == 200
    body = response.json()
    return body["status"], body["parts"]


@pytest.mark.django_db
def test_readyz_is_ok_when_all_parts_respond(client: Client) -> None:
    note_worker(uuid7())
    assert parts(client) == ("ok", {"database": "ok", "broker": "ok", "worker": "ok"})


@pytest.mark.django_db
def test_without_a_worker_requests_are_served_all_the_same(client: Client) -> None:
    degraded = ("degraded", {"database": "ok", "broker": "ok", "worker": "unavailable"})
    assert parts(client) == degraded
    worker = uuid7()
    note_worker(worker)
    Worker.objects.update(seen_at=timezone.now() - SILENCE - timedelta(seconds=1))
    assert parts(client) == degraded
    note_worker(worker)
    assert parts(client)[0] == "ok"
    forget_worker(worker)
    assert parts(client) == degraded


@pytest.mark.django_db
def test_workers_that_are_long_dead_are_forgotten(db: None) -> None:
    note_worker(uuid7())
    Worker.objects.update(seen_at=timezone.now() - timedelta(days=2))
    note_worker(alive := uuid7())
    assert [worker.pk for worker in Worker.objects.all()] == [alive]


@pytest.mark.django_db
def test_a_redis_that_does_not_respond_is_reported_without_its_address(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    note_worker(uuid7())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0"
        monkeypatch.setattr("django.conf.settings.REDIS_URL", address)
        status, found = parts(client)
    assert (status, found["broker"], found["worker"]) == ("degraded", "unavailable", "ok")
    assert "secret" not in caplog.text


@pytest.mark.django_db
def test_a_redis_that_hangs_is_waited_for_two_seconds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        monkeypatch.setattr("django.conf.settings.REDIS_URL", address)
        monkeypatch.setattr("historyapp.health.BROKER_SECONDS", 0.2)
        began = time.monotonic()
        assert parts(client)[1]["broker"] == "unavailable"
    assert time.monotonic() - began < 5


@pytest.mark.django_db
def test_a_redis_that_answers_is_the_broker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as redis:
        monkeypatch.setattr("django.conf.settings.REDIS_URL", redis.url)
        assert parts(client)[1]["broker"] == "ok"
        redis.kill()
        assert parts(client)[1]["broker"] == "unavailable"


@pytest.mark.django_db
def test_readyz_is_503_when_the_database_does_not_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DatabaseError("connection to host db1 as alice failed")

    monkeypatch.setattr(connection, "cursor", refuse)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert json.loads(response.content) == {
        "status": "unavailable",
        "parts": {"database": "unavailable", "broker": "unknown", "worker": "unknown"},
    }


@pytest.mark.django_db(transaction=True)
def test_a_queue_without_its_table_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is older than the program: `playhead migrate` has not run."""
    note_worker(uuid7())
    monkeypatch.setattr(QueuedMessage._meta, "db_table", "historyapp_not_there_yet")
    status, found = parts(client)
    assert (status, found) == ("degraded", {"database": "ok", "broker": "unavailable", "worker": "ok"})
