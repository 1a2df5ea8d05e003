"""Events reach a target in order, with the same id at every attempt, until the target accepts them."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from historyapp.models import AuditRecord, Change, Project, Session, Webhook, WebhookDelivery
from historyapp.models.changes import ChangeKind
from historyapp.models.database_clock import claim_now
from historyapp.models.webhooks import MAX_RETRY, RETRY_SECONDS
from historyapp.services import short_transactions
from historyapp.services.append import append, hold_sessions
from historyapp.services.sessions import change_session, create_session
from historyapp.services.transactions import writing
from historyapp.services.webhooks import delivery as delivering
from historyapp.services.webhooks import fan_out
from historyapp.services.webhooks.delivery import process_webhook
from historyapp.services.webhooks.endpoints import (
    change_webhook,
    deliveries_of,
    prune_deliveries,
    redeliver,
    send_test,
)
from historyapp.services.webhooks.sending import Attempt
from tests.services.drafts import act, ask, failed
from tests.services.webhooks.conftest import Work
from tests.services.webhooks.receiver import Arrived, Receiver, Reply


def run_once(project: Project, title: str = "") -> Session:
    """Causes three events: a session begins, one of its steps fails, it ends."""
    session = create_session(project, names={"title": title})
    append(project, session.pk, [ask("go"), act("make"), failed()])
    change_session(project, session.pk, {"status": "finished"})
    return session


RUN = ["session.started", "session.error", "session.ended"]


def test_each_event_arrives_once(project: Project, receiver: Receiver, work: Work) -> None:
    run_once(project)
    work()
    work()
    assert receiver.types() == RUN
    assert set(WebhookDelivery.objects.values_list("state", "attempts")) == {("succeeded", 1)}


def test_events_before_the_creation_of_a_webhook_are_not_sent(
    project: Project, session: Session, receiver: Receiver, work: Work
) -> None:
    work()
    assert receiver.types() == []


def test_deliveries_of_a_session_wait_for_a_failed_one_and_other_sessions_do_not(
    project: Project, receiver: Receiver, work: Work
) -> None:
    bad, good = run_once(project, "bad"), run_once(project, "good")
    refused = [True]

    def answer(request: Arrived) -> Reply:
        return Reply(500) if request.session == str(bad.pk) and refused[0] else Reply()

    receiver.answer = answer
    for _ in range(3):
        work()
    of_good = [request.type for request in receiver.arrived if request.session == str(good.pk)]
    of_bad = [request for request in receiver.arrived if request.session == str(bad.pk)]
    assert of_good == RUN
    assert {request.type for request in of_bad} == {"session.started"}
    assert len({(request.id, request.text) for request in of_bad}) == 1 < len(of_bad)
    refused[0] = False
    work()
    arrived = [request.type for request in receiver.arrived if request.session == str(bad.pk)]
    assert arrived[len(of_bad) :] == RUN


@pytest.mark.parametrize("ahead_by", [timedelta(hours=2), timedelta(days=1)])
@pytest.mark.parametrize("status", [200, 500])
def test_webhooks_continue_after_the_clock_was_set_back(
    project: Project,
    receiver: Receiver,
    webhook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    ahead_by: timedelta,
    status: int,
) -> None:
    """Deliveries of a slow target and retries had the wrong time, up to 12 hours ahead, and waited for it."""
    receiver.answer = lambda request: Reply(status)
    with monkeypatch.context() as ahead:
        for module in (delivering, fan_out):
            ahead.setattr(module, "database_now", lambda: timezone.now() + ahead_by)
        run_once(project)
        stops = iter([False, True])
        process_webhook(webhook.pk, lambda: next(stops, True))
    receiver.answer = lambda request: Reply()
    assert Webhook.objects.due(timezone.now()) == [webhook.pk]
    for _ in RUN:
        process_webhook(webhook.pk, lambda: False)
    assert set(WebhookDelivery.objects.values_list("state", flat=True)) == {"succeeded"}


@pytest.mark.skipif("config.getoption('database') != 'postgres'", reason="SQLite has the worker's clock")
def test_a_worker_whose_clock_is_ahead_does_not_delay_deliveries(
    project: Project, receiver: Receiver, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now
    receiver.answer = lambda request: Reply(500)
    with monkeypatch.context() as ahead:
        ahead.setattr(timezone, "now", lambda: now() + timedelta(minutes=5))
        run_once(project)
        process_webhook(webhook.pk, lambda: False)
    webhook.refresh_from_db()
    assert len(receiver.arrived) == 1
    assert webhook.not_before is not None
    assert webhook.not_before < now() + timedelta(seconds=5)
    retry = now() + timedelta(seconds=RETRY_SECONDS[0])
    assert {row.due_at < retry for row in WebhookDelivery.objects.all()} == {True}


def test_a_pause_is_kept_and_is_the_longest_that_counts(
    project: Project, receiver: Receiver, webhook: Webhook
) -> None:
    receiver.answer = lambda request: Reply(503, headers={"retry-after": "99999"})
    run_once(project)
    process_webhook(webhook.pk, lambda: False)
    assert Webhook.objects.due(timezone.now()) == []
    process_webhook(webhook.pk, lambda: False)
    assert len(receiver.arrived) == 1
    assert RETRY_SECONDS[-1] == max(RETRY_SECONDS) == MAX_RETRY.total_seconds()


def test_a_delivery_is_retried_for_a_day_and_then_the_next_ones_are_sent(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    assert timedelta(days=1) <= timedelta(seconds=sum(RETRY_SECONDS)) < timedelta(days=1.1)
    run_once(project)
    receiver.answer = lambda request: Reply(500 if request.type == "session.started" else 204)
    for _ in RETRY_SECONDS:
        work()
    assert set(receiver.types()) == {"session.started"}
    work()
    assert receiver.types()[-3:] != RUN[1:]
    work()
    assert receiver.types()[-2:] == RUN[1:]
    first = WebhookDelivery.objects.order_by("pk")[0]
    assert (first.state, first.attempts) == ("failed", len(RETRY_SECONDS) + 1)
    assert first.log[-1]["status"] == 500


def test_the_pauses_of_a_target_that_fails_grow(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    receiver.answer = lambda _: Reply(503)
    send_test(project, webhook.pk)
    pauses = []
    for _ in range(4):
        work()
        webhook.refresh_from_db()
        assert webhook.not_before
        pauses.append(round((webhook.not_before - timezone.now()).total_seconds()))
        assert webhook.pk not in Webhook.objects.due(timezone.now())
    assert pauses == [1, 2, 4, 8]


def test_a_target_can_set_the_pause(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    receiver.answer = lambda _: Reply(429, headers={"Retry-After": "900"})
    made = send_test(project, webhook.pk)
    work()
    made.refresh_from_db()
    assert timedelta(minutes=14) < made.due_at - timezone.now() < timedelta(minutes=16)


def test_a_target_that_needs_a_pause_gets_no_other_delivery_while_the_feed_is_read(
    project: Project, receiver: Receiver, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "PAGE_SIZE", 1)
    receiver.answer = lambda _: Reply(503)
    for _ in range(4):
        create_session(project)
    work()
    assert (len(receiver.arrived), WebhookDelivery.objects.count()) == (1, 4)


def test_a_delivery_that_is_sent_again_is_not_deleted(
    project: Project, webhook: Webhook, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_test(project, webhook.pk)
    work()
    message = WebhookDelivery.objects.get().message_id

    def redeliver_before() -> AbstractContextManager[None]:
        monkeypatch.undo()
        redeliver(project, webhook.pk, message)
        return writing()

    monkeypatch.setattr(short_transactions, "writing", redeliver_before)
    assert prune_deliveries(timedelta(0)) == 0
    assert WebhookDelivery.objects.get().state == "pending"


def test_a_killed_worker_sends_the_same_id_again(
    project: Project,
    receiver: Receiver,
    webhook: Webhook,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_once(project)
    with monkeypatch.context() as patch:
        patch.setattr(delivering, "_store_attempt", _killed)
        patch.setattr(delivering, "_release", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            work()
    work()
    assert len(receiver.arrived) == 1, "its claim holds"
    assert Webhook.objects.due(timezone.now()) == []
    Webhook.objects.update(claimed_until=claim_now() - timedelta(seconds=1))
    assert Webhook.objects.due(timezone.now()) == [webhook.pk], "although the feed has nothing new"
    work()
    first, second, *rest = receiver.arrived
    assert (first.id, first.text) == (second.id, second.text)
    assert [request.type for request in rest] == RUN[1:]


def test_a_worker_that_is_killed_while_it_reads_the_feed_loses_nothing(
    project: Project,
    receiver: Receiver,
    webhook: Webhook,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_once(project)
    with monkeypatch.context() as patch:
        patch.setattr(fan_out, "_store", _killed)
        with pytest.raises(KeyboardInterrupt):
            work()
    work()
    assert receiver.types() == RUN


def test_many_deliveries_are_stored_in_parts_and_a_killed_worker_repeats_none(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(project)
    parts = list[int]()

    def hold_two_parts(project: UUID, ids: Collection[UUID]) -> set[UUID]:
        parts.append(len(ids))
        if len(parts) == 3:
            raise KeyboardInterrupt
        return hold_sessions(project, ids)

    monkeypatch.setattr(fan_out, "STORED_AT_ONCE", 1)
    monkeypatch.setattr(fan_out, "hold_sessions", hold_two_parts)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert WebhookDelivery.objects.count() == 2
    work()
    assert receiver.types() == RUN
    assert len(parts) == 3 + len(RUN)


def _killed(*_: object, **__: object) -> bool:
    raise KeyboardInterrupt


def test_a_webhook_that_another_worker_took_over_is_skipped(
    project: Project, webhook: Webhook, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once(project)

    def send(*_: object) -> Attempt:
        Webhook.objects.update(claim=webhook.pk)
        return Attempt(204, "")

    monkeypatch.setattr(delivering, "send", send)
    work()
    assert list(WebhookDelivery.objects.values_list("state", flat=True)) == ["pending"] * 3
    assert Webhook.objects.get().claim == webhook.pk


def test_a_410_disables_a_webhook_and_gives_the_reason(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    receiver.answer = lambda _: Reply(410)
    run_once(project)
    work()
    webhook.refresh_from_db()
    assert (webhook.state, len(receiver.arrived)) == ("off", 1)
    assert "410 Gone" in webhook.note
    assert AuditRecord.objects.filter(action="switch off webhook", actor="webhooks").count() == 1
    assert webhook.pk not in Webhook.objects.due(timezone.now())


def test_three_days_of_failures_disable_a_webhook(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    receiver.answer = lambda _: Reply(500)
    send_test(project, webhook.pk)
    work()
    Webhook.objects.update(failing_since=timezone.now() - timedelta(days=2.9), failures=20)
    work()
    assert Webhook.objects.get().state == "active"
    Webhook.objects.update(failing_since=timezone.now() - timedelta(days=3))
    work()
    assert Webhook.objects.get().state == "off"
    assert "three days failed" in Webhook.objects.get().note


def test_a_resumed_webhook_sends_the_events_of_the_pause(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    change_webhook(project, webhook.pk, {"state": "paused"})
    run_once(project)
    work()
    assert receiver.types() == []
    change_webhook(project, webhook.pk, {"state": "active"})
    assert Webhook.objects.due(timezone.now()) == [webhook.pk]
    process_webhook(webhook.pk, lambda: False)
    assert receiver.types() == RUN


def test_a_delivery_that_is_sent_again_keeps_its_id_and_body(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    send_test(project, webhook.pk)
    work()
    redeliver(project, webhook.pk, WebhookDelivery.objects.get().message_id)
    work()
    first, second = receiver.arrived
    assert (first.id, first.text) == (second.id, second.text)
    assert [entry["status"] for entry in WebhookDelivery.objects.get().log] == [204, 204]


def test_a_webhook_gets_only_its_chosen_events(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    change_webhook(project, webhook.pk, {"events": ["session.ended"]})
    run_once(project)
    work()
    assert receiver.types() == ["session.ended"]


def test_a_webhook_is_due_while_it_has_changes_to_read_or_deliveries_to_send(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    def due() -> bool:
        return webhook.pk in Webhook.objects.due(timezone.now())

    assert not due()
    create_session(project)
    assert due()
    work()
    assert not due()
    create_session(Project.objects.create(name="Bob's"))
    assert not due()


def test_a_webhook_that_missed_changes_reports_it_and_continues(
    project: Project, receiver: Receiver, webhook: Webhook, work: Work
) -> None:
    create_session(project)
    work()
    run_once(project)
    newest = Change.objects.filter(project=project).order_by("-id")[0]
    Change.objects.filter(pk=newest.pk).update(kind=ChangeKind.PRUNED)
    Change.objects.exclude(pk=newest.pk).delete()
    work()
    assert "may be missing" in Webhook.objects.get().note
    create_session(project)
    work()
    assert receiver.types() == ["session.started"] * 2


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="SQLite's plans ignore the rows")
def test_the_deliveries_of_a_state_are_found_by_an_index(project: Project) -> None:
    """Few of 100,000 deliveries may have failed."""
    webhook = Webhook.objects.create(project=project, url="https://example.com/")
    with CaptureQueriesContext(connection) as queries:
        assert deliveries_of(webhook, 5, state="failed", before=9) == []
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries[-1]['sql']}")
        plan = str(cursor.fetchall())
    assert "COVERING INDEX delivery_by_session (webhook_id=? AND state=?)" in plan
