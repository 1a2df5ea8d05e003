"""Celery's transport over the queue in the database, with and without failures."""

import base64
import json
import sqlite3
from collections.abc import Iterator
from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from kombu import Connection
from kombu.exceptions import OperationalError

from historyapp import broker, enqueue
from historyapp.celery import app
from historyapp.models import QueuedMessage
from historyapp.services.queue import put, size

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[broker.Channel]:
    monkeypatch.setattr(broker, "RETRY_SECONDS", 0)
    with Connection(app.conf.broker_url) as connection:
        channel = connection.default_channel
        assert isinstance(channel, broker.Channel)
        yield channel


def arrived(channel: broker.Channel) -> list[Any]:
    """The bodies of the messages that a worker would receive now."""
    messages = []
    while True:
        try:
            messages.append(json.loads(base64.b64decode(channel._get("playhead")["body"])))
        except Empty:
            return messages


def test_without_redis_the_queue_is_the_database() -> None:
    transport = app.connection_for_write().transport
    assert isinstance(transport, broker.Transport)


def test_several_messages_are_sent_in_one_commit(channel: broker.Channel) -> None:
    """A commit on SQLite waits for the disk; a request must not do so four times."""
    sessions = [uuid4() for _ in range(4)]
    with CaptureQueriesContext(connection) as queries:
        enqueue.request_text_index(sessions)
    assert sum(query["sql"].startswith("COMMIT") for query in queries.captured_queries) == 1
    assert [body[0] for body in arrived(channel)] == [[str(id)] for id in sessions]


def test_messages_are_like_those_of_celery() -> None:
    """They are written without Celery, which the web process does not load."""
    run = uuid4()
    enqueue.wake(run)
    app.send_task("compress", (str(run),))
    ours, theirs = (
        json.loads(payload)
        for payload in QueuedMessage.objects.order_by("id").values_list("payload", flat=True)
    )
    id, tag = ours["headers"]["id"], ours["properties"]["delivery_tag"]
    same = theirs["headers"] | {"id": id, "root_id": id, "origin": ours["headers"]["origin"]}
    del theirs["properties"]["reply_to"]  # tasks send no results
    theirs["properties"] |= {"correlation_id": id, "delivery_tag": tag}
    bodies = [json.loads(base64.b64decode(message.pop("body"))) for message in (ours, theirs)]
    assert bodies[0] == bodies[1]
    assert ours == theirs | {"headers": same}


def test_a_message_that_was_not_started_goes_back_when_the_worker_stops(channel: broker.Channel) -> None:
    app.send_task("compress", ["a run"])
    channel.basic_consume("playhead", no_ack=False, callback=lambda message: None, consumer_tag="t")
    channel.drain_events(timeout=1)
    assert size("playhead") == 0
    channel.close()
    assert size("playhead") == 1


def test_a_message_that_was_started_does_not_go_back(channel: broker.Channel) -> None:
    app.send_task("compress", ["a run"])
    channel.basic_consume("playhead", no_ack=False, callback=lambda message: message.ack(), consumer_tag="t")
    channel.drain_events(timeout=1)
    channel.close()
    assert size("playhead") == 0


@pytest.mark.parametrize(
    "payload",
    [
        "",
        '{"body": "half',
        "null",
        "[]",
        "{}",
        '{"properties": null}',
        '{"properties": {"delivery_tag": "1"}, "body": 7}',
        '{"properties": {"delivery_tag": "1", "body_encoding": "base64"}, "body": "a"}',
        "[" * 100_000,
    ],
    ids=lambda payload: payload[:30],
)
def test_an_unreadable_message_is_set_aside_and_the_next_one_delivered(
    channel: broker.Channel, payload: str, caplog: pytest.LogCaptureFixture
) -> None:
    put("playhead", payload)
    app.send_task("compress", ["a run"])
    (body,) = arrived(channel)
    assert body[0] == ["a run"]
    assert QueuedMessage.objects.get().problem
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_message_that_celery_cannot_deliver_is_set_aside(channel: broker.Channel) -> None:
    def fail_to_deliver(message: object) -> None:
        raise KeyError("id")

    app.send_task("compress", ["a run"])
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("playhead", no_ack=False, callback=fail_to_deliver, consumer_tag="t")
    channel.drain_events(timeout=1)
    assert QueuedMessage.objects.get().problem == "KeyError: 'id'"
    assert channel.qos.can_consume()
    channel.close()
    assert size("playhead") == 0


def test_queues_can_be_counted_and_emptied(channel: broker.Channel) -> None:
    app.send_task("compress", ["a run"])
    assert channel.queue_declare("playhead", passive=True).message_count == 1
    assert (app.control.purge(), size("playhead")) == (1, 0)


def test_an_unavailable_database_is_logged_once_and_gives_no_message(
    channel: broker.Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that is started before `playhead migrate`."""
    app.send_task("compress", ["a run"])
    with monkeypatch.context() as patch:
        patch.setattr("historyapp.services.queue.WAITING_MESSAGE", "SELECT %s FROM historyapp_not_there_yet")
        assert [arrived(channel) for _ in range(3)] == [[], [], []]
    assert len(arrived(channel)) == 1
    lost, back = (record.getMessage() for record in caplog.records)
    assert "historyapp_not_there_yet" in lost
    assert "playhead migrate" in lost
    assert back == "The queue in the database can be used again."


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows")
def test_a_database_that_stays_locked_loses_nothing(
    channel: broker.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    app.send_task("compress", ["a run"])
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert arrived(channel) == []
        with pytest.raises(OperationalError):
            app.send_task("compress", ["another run"])
    finally:
        other.execute("ROLLBACK")
        other.close()
        connection.close()  # forgets the short timeout
    assert len(arrived(channel)) == 1
    assert "locked" in caplog.records[0].getMessage()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no server")
def test_a_lost_connection_is_reopened(channel: broker.Channel) -> None:
    app.send_task("compress", ["a run"])
    with connection.cursor() as cursor, pytest.raises(DatabaseError):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert arrived(channel) == []
    assert len(arrived(channel)) == 1


def test_a_run_whose_message_cannot_be_queued_is_found_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not QueuedMessage.objects.all()  # fields keep the name of the table at their first query
    monkeypatch.setattr(QueuedMessage._meta, "db_table", "historyapp_not_there_yet")
    enqueue.wake(uuid4())
    (record,) = caplog.records
    assert "within a second" in record.getMessage()


def test_fan_out_is_refused_with_advice() -> None:
    with pytest.raises(NotImplementedError, match="Set REDIS_URL"):
        app.control.ping(timeout=0.1)
