"""The queue in the database gives each message to one worker."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from historyapp.models import QueuedMessage
from historyapp.services.queue import purge, put, size, store_unreadable, take

pytestmark = pytest.mark.django_db(transaction=True)


def test_messages_are_taken_once_and_in_order() -> None:
    for number in range(3):
        put("ours", str(number))
    assert [take("ours") for _ in range(4)] == ["0", "1", "2", None]
    assert not QueuedMessage.objects.exists()


def test_queues_are_separate() -> None:
    put("ours", "1")
    put("theirs", "2")
    assert (size("ours"), take("nobody's")) == (1, None)
    assert (purge("ours"), size("ours"), take("theirs")) == (1, 0, "2")


def test_reading_an_empty_queue_takes_one_query() -> None:
    """Otherwise an idle worker would take SQLite's write lock ten times a second."""
    with CaptureQueriesContext(connection) as queries:
        assert take("ours") is None
    (query,) = queries.captured_queries
    assert query["sql"].startswith("SELECT")


def test_several_takers_never_get_the_same_message() -> None:
    for number in range(200):
        put("ours", str(number))
    taken: list[str] = []

    def work() -> None:
        while (message := take("ours")) is not None:
            taken.append(message)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    while (message := take("ours")) is not None:  # PostgreSQL passes over what another is taking
        taken.append(message)
    assert Counter(taken) == Counter(map(str, range(200)))


def test_an_unreadable_message_is_kept_logged_and_never_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store_unreadable("ours", '{"body": "half a mess', ValueError("Unterminated string"))
    assert (take("ours"), size("ours")) == (None, 0)
    kept = QueuedMessage.objects.get()
    assert (kept.payload, kept.problem) == ('{"body": "half a mess', "ValueError: Unterminated string")
    (record,) = caplog.records
    assert record.getMessage().endswith("is set aside: ValueError: Unterminated string")


def test_messages_that_were_set_aside_are_deleted_after_a_week() -> None:
    store_unreadable("ours", "first", ValueError())
    QueuedMessage.objects.update(created_at=timezone.now() - timedelta(days=8))
    store_unreadable("ours", "second", ValueError())
    assert QueuedMessage.objects.get().payload == "second"
