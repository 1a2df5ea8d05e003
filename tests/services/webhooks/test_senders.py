"""A worker sends the webhooks of several projects at the same time."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from historyapp import tasks
from historyapp.models import Project, QueuedMessage, Webhook, WebhookDelivery
from historyapp.services.sessions import create_session
from historyapp.services.webhooks import delivery
from historyapp.services.webhooks.sending import Attempt
from historyapp.tasks import MAX_SENDERS, PROJECT_SENDERS, SHARED_SENDERS

pytestmark = pytest.mark.django_db(transaction=True)


def test_slow_targets_of_a_project_do_not_delay_other_projects(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other = (Project.objects.create(name=name) for name in ("slow", "other"))
    webhooks = [Webhook.objects.create(project=slow, url="https://a.example") for _ in range(20)]
    started, release = Counter[UUID](), threading.Event()
    project_of = {webhook.pk: webhook.project_id for webhook in webhooks}

    def process(id: UUID, should_stop: Callable[[], bool]) -> None:
        started[project_of[id]] += 1
        assert project_of[id] == other.pk or release.wait(30)

    monkeypatch.setattr("historyapp.services.webhooks.delivery.process_webhook", process)
    with ThreadPoolExecutor(8) as senders:
        turns = [senders.submit(tasks._send_webhook, webhook.pk, slow.pk) for webhook in webhooks]
        try:
            quick = Webhook.objects.create(project=other, url="https://b.example")
            project_of[quick.pk] = other.pk
            senders.submit(tasks._send_webhook, quick.pk, other.pk).result(20)
            returned = as_completed(turns, timeout=20)
            for _ in range(len(webhooks) - PROJECT_SENDERS):
                next(returned)
            assert started == {slow.pk: PROJECT_SENDERS, other.pk: 1}
        finally:
            release.set()
    assert all(turn.exception() is None for turn in turns)
    tasks._send_webhook(webhooks[-1].pk, slow.pk)
    assert started[slow.pk] == PROJECT_SENDERS + 1, "its turn comes when another one has ended"


def test_slow_targets_of_several_projects_leave_senders_for_projects_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("historyapp.tasks._current_webhooks", {})
    slow = [uuid4() for _ in range(6)]
    reserved = [tasks._reserve_sender(uuid4(), project) for project in slow for _ in range(PROJECT_SENDERS)]
    assert sum(reserved) == SHARED_SENDERS + 2, "the last two projects have one each"
    assert not any(tasks._reserve_sender(uuid4(), project) for project in slow)
    for _ in range(MAX_SENDERS - SHARED_SENDERS - 2):
        assert tasks._reserve_sender(uuid4(), uuid4())


def test_the_clock_lets_threads_send_due_webhooks_without_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages would wait behind those for indexes, and tasks for a thread."""
    project = Project.objects.create(name="ours")
    webhook = Webhook.objects.create(project=project, url="https://a.example", next_at=timezone.now())
    entered, release, ended = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def process(id: UUID, should_stop: Callable[[], bool]) -> None:
        assert id == webhook.pk
        entered.release()
        assert release.wait(30)
        ended.release()

    monkeypatch.setattr("historyapp.services.webhooks.delivery.process_webhook", process)
    monkeypatch.setattr(tasks, "WEBHOOK_SECONDS", 0)
    tasks.send_due_webhooks()
    try:
        assert entered.acquire(timeout=30)
        assert tasks.is_busy()
        tasks.send_due_webhooks()
        assert not entered.acquire(timeout=0.3), "a thread sends it already"
        assert QueuedMessage.objects.count() == 0
    finally:
        release.set()
    assert ended.acquire(timeout=30)


@pytest.mark.skipif("config.getoption('database') != 'postgres'", reason="SQLite limits no connections")
def test_a_sender_has_no_connection_while_it_waits_for_a_slow_target(
    project: Project, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL limits the number of connections, and a target may take ten seconds."""
    for _ in range(4):
        create_session(project)
    connected: list[bool] = []
    milliseconds = iter([500, 10, 500, 10])

    def send(*arguments: object) -> Attempt:
        connected.append(connection.connection is not None)
        return Attempt(status=200, error="", milliseconds=next(milliseconds))

    monkeypatch.setattr(delivery, "send", send)
    tasks._send_webhook(webhook.pk, project.pk)
    assert connected == [False, False, True, False], "it is kept after a target has responded quickly"
    assert WebhookDelivery.objects.filter(state="succeeded").count() == 4
    connection.close()
