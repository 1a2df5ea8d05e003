"""The health checks respond as load balancers expect."""

import json
import socket
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.disk import free_bytes
from historyapp.lag import QUEUE
from historyapp.models import Change, CompressionRun, Project, QueuedMessage, Webhook, Worker
from historyapp.models.database_clock import claim_now
from historyapp.models.workers import SILENCE
from historyapp.redis_values import TIME_LIMITS
from historyapp.services.queue import put
from historyapp.services.sessions import create_session
from historyapp.services.workers import record_worker, remove_worker
from tests.redis import redis_server

ALL_OK = dict.fromkeys(("database", "broker", "worker", "disk", "lag"), "ok")


def test_healthz_needs_no_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


def parts(client: Client) -> tuple[str, dict[str, str]]:
    """The parts of a response that reports a healthy server."""
    response = client.get("/readyz")
    assert response.status_code == 200
    body = response.json()
    return body["status"], body["parts"]


@pytest.mark.django_db(transaction=True)
def test_readyz_is_ok_when_all_parts_respond(client: Client) -> None:
    record_worker(uuid7())
    assert parts(client) == ("ok", ALL_OK)


@pytest.mark.django_db(transaction=True)
def test_requests_are_served_without_a_worker(client: Client) -> None:
    degraded = ("degraded", {**ALL_OK, "worker": "unavailable"})
    assert parts(client) == degraded
    worker = uuid7()
    record_worker(worker)
    Worker.objects.update(seen_at=timezone.now() - SILENCE - timedelta(seconds=1))
    assert parts(client) == degraded
    record_worker(worker)
    assert parts(client)[0] == "ok"
    remove_worker(worker)
    assert parts(client) == degraded


@pytest.mark.django_db(transaction=True)
def test_rows_of_dead_workers_are_deleted_after_a_while(db: None) -> None:
    record_worker(uuid7())
    Worker.objects.update(seen_at=timezone.now() - timedelta(days=2))
    record_worker(alive := uuid7())
    assert [worker.pk for worker in Worker.objects.all()] == [alive]


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_does_not_respond_is_reported_without_its_address(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record_worker(uuid7())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0"
        monkeypatch.setattr("django.conf.settings.REDIS_URL", address)
        status, states = parts(client)
    assert (status, states["broker"], states["worker"]) == ("degraded", "unavailable", "ok")
    assert "secret" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_hangs_is_waited_for_two_seconds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        monkeypatch.setattr("django.conf.settings.REDIS_URL", address)
        monkeypatch.setitem(TIME_LIMITS, "socket_timeout", 0.2)
        began = time.monotonic()
        assert parts(client)[1]["broker"] == "unavailable"
    assert time.monotonic() - began < 5


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_answers_is_the_broker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as redis:
        monkeypatch.setattr("django.conf.settings.REDIS_URL", redis.url)
        assert parts(client)[1]["broker"] == "ok"
        redis.kill()
        assert parts(client)[1]["broker"] == "unavailable"


@pytest.mark.django_db(transaction=True)
def test_readyz_is_503_when_the_database_does_not_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DatabaseError("connection to host db1 as alice failed")

    monkeypatch.setattr("historyapp.health._query", refuse)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert json.loads(response.content) == {
        "status": "unavailable",
        "parts": {
            "database": "unavailable",
            "broker": "unknown",
            "worker": "unknown",
            "disk": "ok",
            "lag": "unknown",
        },
    }


@pytest.mark.django_db(transaction=True)
def test_a_queue_without_its_table_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is older than the program: `playhead migrate` has not run."""
    record_worker(uuid7())
    assert not QueuedMessage.objects.all()  # fields keep the name of the table at their first query
    monkeypatch.setattr(QueuedMessage._meta, "db_table", "historyapp_not_there_yet")
    status, states = parts(client)
    assert (status, states) == ("degraded", {**ALL_OK, "broker": "unavailable", "lag": "unknown"})


@pytest.mark.django_db(transaction=True)
def test_a_disk_with_too_little_space_is_low(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    record_worker(uuid7())
    free = free_bytes()
    monkeypatch.setattr("django.conf.settings.PLAYHEAD_DISK_ALARM", free * 2)
    assert parts(client) == ("degraded", {**ALL_OK, "disk": "low"})
    monkeypatch.setattr("django.conf.settings.PLAYHEAD_DISK_ALARM", free // 2)
    assert parts(client) == ("ok", ALL_OK)


@pytest.mark.django_db(transaction=True)
def test_the_disk_of_a_missing_data_folder_is_unknown(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record_worker(uuid7())
    monkeypatch.setattr("historyapp.disk.watched_folder", lambda: tmp_path / "gone")
    assert parts(client) == ("degraded", {**ALL_OK, "disk": "unknown"})


@pytest.mark.django_db(transaction=True)
def test_a_message_that_waits_too_long_is_a_lag(client: Client) -> None:
    record_worker(uuid7())
    put(QUEUE, "{}")
    assert parts(client) == ("ok", ALL_OK)
    QueuedMessage.objects.update(created_at=timezone.now() - timedelta(seconds=301))
    assert parts(client) == ("degraded", {**ALL_OK, "lag": "late"})


@pytest.mark.django_db(transaction=True)
def test_a_run_that_no_worker_starts_is_a_lag_and_an_active_run_is_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_worker(uuid7())
    session = create_session(Project.objects.create(name="Alice's"))
    run = CompressionRun(
        project=session.project, session=session, strategy="x", head=1, from_step=1, to_step=1
    )
    run.created_at = timezone.now() - timedelta(seconds=100)
    run.save()
    assert parts(client) == ("ok", ALL_OK)
    monkeypatch.setattr("django.conf.settings.PLAYHEAD_LAG_ALARM", 99)
    assert parts(client) == ("degraded", {**ALL_OK, "lag": "late"})
    CompressionRun.objects.update(state="running")
    assert parts(client) == ("ok", ALL_OK)


@pytest.mark.django_db(transaction=True)
def test_a_webhook_that_no_worker_works_on_is_a_lag(client: Client) -> None:
    record_worker(uuid7())
    project = Project.objects.create(name="Alice's")
    webhook = Webhook.objects.create(project=project, url="https://alice.example/hook")
    assert parts(client) == ("ok", ALL_OK)
    create_session(project)
    assert parts(client) == ("ok", ALL_OK)
    long_ago = timezone.now() - timedelta(seconds=301)
    Change.objects.update(at=long_ago)
    assert parts(client) == ("degraded", {**ALL_OK, "lag": "late"})
    rows = Webhook.objects.filter(pk=webhook.pk)
    rows.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert parts(client) == ("ok", ALL_OK), "a worker has just worked on it: its target is slow"
    rows.update(claimed_until=long_ago)
    assert parts(client) == ("degraded", {**ALL_OK, "lag": "late"})
    rows.update(not_before=timezone.now() - timedelta(seconds=1))
    assert parts(client) == ("ok", ALL_OK), "its pause has just ended"
    rows.update(not_before=timezone.now() + timedelta(seconds=60))
    assert parts(client) == ("ok", ALL_OK), "it has a pause"
    rows.update(not_before=None, claim=uuid4(), claimed_until=claim_now() + timedelta(seconds=60))
    assert parts(client) == ("ok", ALL_OK), "a worker works on it"
    Change.objects.all().delete()
    rows.update(claim=None, claimed_until=None, next_at=long_ago)
    assert parts(client) == ("degraded", {**ALL_OK, "lag": "late"}), "a delivery is due"
    rows.update(state=Webhook.State.PAUSED)
    assert parts(client) == ("ok", ALL_OK)
