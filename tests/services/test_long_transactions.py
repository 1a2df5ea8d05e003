"""No write transaction of a server process holds up others for longer than its limit, and long ones are
logged."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from historyapp import meters, worker, wsgi
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput
from historyapp.core.lineage import Span
from historyapp.core.projection import advance
from historyapp.duties import Duties
from historyapp.log import JsonLine
from historyapp.models import (
    BulkAction,
    BulkItem,
    CountedSession,
    Entry,
    IdempotencyKey,
    Project,
    Session,
    Webhook,
)
from historyapp.models.database_clock import claim_now
from historyapp.models.run_sql import run_sql, run_sql_for_each
from historyapp.models.sql import outputs_between
from historyapp.services import append as appending
from historyapp.services import long_transactions
from historyapp.services.bulk import work
from historyapp.services.bulk.start import BulkRequest, start_bulk_action
from historyapp.services.figures import day_figures
from historyapp.services.figures.day_rows import add_to_days
from historyapp.services.figures.feed import follow_changes
from historyapp.services.sessions import change_session, create_session
from historyapp.services.statements import insert_entries
from historyapp.services.transactions import writing, writing_together
from historyapp.services.webhooks import delivery
from historyapp.services.webhooks.endpoints import create_webhook
from historyapp.wire.problems import TransactionTooLong
from tests.api.agent import Agent, ask
from tests.api.conftest import alice as alice
from tests.api.conftest import project as project
from tests.api.conftest import run as run
from tests.api.conftest import session_id as session_id
from tests.api.test_problems import assert_problem
from tests.examples import thorough

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 0.4
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
_ENDLESS_WRITE = f"UPDATE historyapp_project SET name = (SELECT 'n' FROM ({_ENDLESS}) AS c)"


@pytest.fixture(autouse=True)
def _limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_transactions._Process, "seconds", SECONDS)


@pytest.fixture
def slow_append(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Appends sleep for the first number of seconds of the list before they store their entries."""
    seconds, insert = [SECONDS + 0.1], insert_entries

    def insert_slowly(*arguments: Any) -> None:
        time.sleep(seconds[0])
        insert(*arguments)

    monkeypatch.setattr(appending, "insert_entries", insert_slowly)
    return seconds


def through_django() -> None:
    Project.objects.create(name="P")


def past_django() -> None:
    run_sql("UPDATE historyapp_project SET name = %s", ("Q",))


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("statement", [through_django, past_django])
def test_many_short_statements_are_ended(statement: Callable[[], None]) -> None:
    before, started = Project.objects.count(), time.monotonic()

    def write() -> None:
        through_django()
        while True:
            statement()

    with pytest.raises(TransactionTooLong, match="Nothing was stored"), writing():
        write()
    assert time.monotonic() - started < SECONDS + 5
    assert Project.objects.count() == before
    assert connection.execute_wrappers == []
    with writing():
        through_django()
    assert Project.objects.count() == before + 1


@pytest.mark.parametrize(
    "statement",
    [
        thorough(lambda: execute(_ENDLESS)),
        lambda: execute(_ENDLESS_WRITE),
        lambda: run_sql(_ENDLESS_WRITE, ()),
        lambda: run_sql_for_each("UPDATE historyapp_project SET name = %s", [("Q",)] * 5_000_000),
    ],
)
def test_one_long_statement_is_interrupted(statement: Callable[[], None]) -> None:
    through_django()
    started = time.monotonic()

    def write() -> None:
        Project.objects.create(name="new")
        statement()

    with pytest.raises(TransactionTooLong), writing():
        write()
    assert time.monotonic() - started < SECONDS + 10
    assert not Project.objects.filter(name__in=("new", "n", "Q")).exists()
    with writing():
        Project.objects.create(name="new")
    assert Project.objects.filter(name="new").exists()


@pytest.mark.parametrize("statement", [through_django, past_django])
def test_time_between_statements_counts(statement: Callable[[], None]) -> None:
    def write() -> None:
        through_django()
        time.sleep(SECONDS + 0.1)
        statement()

    with pytest.raises(TransactionTooLong), writing():
        write()
    assert not Project.objects.filter(name__in=("P", "Q")).exists()


def test_a_transaction_that_only_has_to_be_committed_is_stored() -> None:
    with writing():
        through_django()
        time.sleep(SECONDS + 0.1)
    assert Project.objects.filter(name="P").exists()


@pytest.mark.parametrize("together", [False, True])
def test_a_nested_write_counts_with_the_outer_one(together: bool) -> None:
    def write_twice() -> None:
        for _ in range(2):
            with writing():
                through_django()
                time.sleep(0.7 * SECONDS)
        with writing():
            through_django()

    with pytest.raises(TransactionTooLong), writing_together(through_django) if together else writing():
        write_twice()
    assert not Project.objects.filter(name="P").exists()


def test_each_transaction_has_its_own_limit() -> None:
    for _ in range(3):
        with writing():
            through_django()
            time.sleep(0.5 * SECONDS)
            through_django()
    assert Project.objects.filter(name="P").count() == 6


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_caller_that_catches_the_error_stores_nothing_either(is_nested: bool) -> None:
    def write() -> None:
        through_django()
        try:
            if is_nested:
                with writing():
                    execute(_ENDLESS_WRITE)
            else:
                execute(_ENDLESS_WRITE)
        except (DatabaseError, TransactionTooLong):
            return

    with pytest.raises(TransactionTooLong), writing():
        write()
    assert not Project.objects.filter(name="P").exists()


def test_commands_and_migrations_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_transactions._Process, "seconds", None)
    with writing():
        time.sleep(SECONDS + 0.1)
        through_django()
    assert Project.objects.filter(name="P").exists()


def test_web_processes_have_the_limit_of_the_settings(settings: Any) -> None:
    settings.PLAYHEAD_TRANSACTION_SECONDS = 3
    wsgi._application()
    assert long_transactions._Process.seconds == 3


def test_workers_have_the_limit_of_the_settings(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        raise InterruptedError

    settings.PLAYHEAD_TRANSACTION_SECONDS = 3
    monkeypatch.setattr(worker, "NICENESS", 0)
    monkeypatch.setattr(worker, "_remove_file_queue", end)
    with pytest.raises(InterruptedError):
        worker.run_worker()
    assert long_transactions._Process.seconds == 3


def test_a_request_over_the_limit_stores_nothing_and_leaves_its_key_free(
    run: Agent, slow_append: list[float]
) -> None:
    keyed = {"Idempotency-Key": "once"}
    refused = run.post("/entries", {"entries": [ask()]}, headers=keyed)
    assert_problem(refused, 503, "Send less at once")
    assert refused["type"].endswith("#transaction-too-long")
    assert refused["request_id"]
    assert refused.headers["Retry-After"] == "10"
    assert run.get()["head"] == 0
    assert not Entry.objects.exists()
    assert not IdempotencyKey.objects.exists()
    slow_append[0] = 0.0
    assert run.post("/entries", {"entries": [ask()]}, headers=keyed).status == 201
    assert run.post("/entries", {"entries": [ask()]}).status == 201
    assert run.get()["head"] == 2


def written(records: list[logging.LogRecord]) -> list[logging.LogRecord]:
    return [record for record in records if record.name == long_transactions.__name__]


def test_a_long_transaction_is_logged_with_its_request_and_place_and_counted(
    run: Agent,
    slow_append: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(long_transactions, "LOGGED_SECONDS", 0.1)
    name = "playhead_write_transaction_seconds_sum"
    before = meters.registry.get_sample_value(name) or 0.0
    slow_append[0] = 0.2
    stored = run.post("/entries", {"entries": [ask()]}, headers={"X-Request-ID": "a-slow-request"})
    assert stored.status == 201
    (record,) = written(caplog.records)
    assert record.levelno == logging.WARNING
    text = record.getMessage()
    assert text.startswith("A write transaction took 0.")
    assert "services/append.py" in text
    assert " in append < " in text
    assert text.endswith("POST /api/v1/sessions/<session_id>/entries, request a-slow-request")
    assert '"ended": false' in JsonLine().format(record)
    assert (meters.registry.get_sample_value(name) or 0.0) >= before + 0.2
    slow_append[0] = SECONDS + 0.1
    run.post("/entries", {"entries": [ask()]})
    assert written(caplog.records)[-1].getMessage().startswith("A write transaction was ended after 0.")


def test_short_transactions_are_counted_and_not_logged(run: Agent, caplog: pytest.LogCaptureFixture) -> None:
    name = "playhead_write_transaction_seconds_count"
    before = meters.registry.get_sample_value(name) or 0.0
    run.append(ask())
    assert (meters.registry.get_sample_value(name) or 0.0) > before
    assert not written(caplog.records)


@pytest.mark.usefixtures("settled")
def test_figures_of_one_session_over_the_limit_do_not_stop_those_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project.objects.create(name="P")
    slow, *others = (create_session(project).pk for _ in range(4))
    add = add_to_days

    def add_slowly(own: dict[UUID, Any], agents: Any) -> None:
        if slow in own:
            time.sleep(SECONDS + 0.1)
        add(own, agents)

    monkeypatch.setattr(day_figures, "add_to_days", add_slowly)
    assert follow_changes(lambda: False) is False
    assert set(CountedSession.objects.values_list("pk", flat=True)) == set(others)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"The figures of session {slow} cannot be counted."]


def test_a_duty_over_the_limit_is_logged_and_waits_while_the_others_continue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []
    duties = Duties()

    def write_for_long() -> None:
        calls.append("long")
        with writing():
            time.sleep(SECONDS + 0.1)
            through_django()

    for _ in range(3):
        duties.attempt("write for long", write_for_long)
        duties.attempt("work", lambda: calls.append("short"))
    assert calls == ["long", "short", "short", "short"]
    assert duties.failing == ["write for long"]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].startswith("The clock could not write for long: Storing this took more than")


def test_a_bulk_action_fails_for_the_session_over_the_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="P")
    slow, other = create_session(project).pk, create_session(project).pk
    action = start_bulk_action(project, BulkRequest("add_tag", [slow, other], tag="seen"))
    change = change_session

    def change_slowly(project: Project, id: UUID, *arguments: Any, **options: Any) -> Session:
        if id == slow:
            time.sleep(SECONDS + 0.1)
        return change(project, id, *arguments, **options)

    monkeypatch.setattr(work, "change_session", change_slowly)
    assert work.process_bulk_action(action.pk, lambda: False, lambda run: None)
    states = BulkItem.objects.order_by("number").values_list("state", flat=True)
    assert list(states) == [BulkItem.State.FAILED, BulkItem.State.DONE]
    assert BulkAction.objects.get().state == BulkAction.State.FINISHED
    assert [session.tags for session in Session.objects.order_by("pk")] == [[], ["seen"]]


def test_a_webhook_over_the_limit_waits_until_its_claim_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_for_long(*_: Any) -> bool:
        with writing():
            time.sleep(SECONDS + 0.1)
            through_django()
        return False

    webhook = create_webhook(Project.objects.create(name="P"), "https://example.org/events")
    monkeypatch.setattr(delivery, "add_deliveries", read_for_long)
    with pytest.raises(TransactionTooLong):
        delivery.process_webhook(webhook.pk, lambda: False)
    assert webhook.pk not in Webhook.objects.due(timezone.now())
    later = claim_now() + timedelta(seconds=31)
    monkeypatch.setattr("historyapp.models.webhooks.claim_now", lambda: later)
    assert webhook.pk in Webhook.objects.due(timezone.now())


def test_a_transaction_ends_while_it_parses_the_rows_of_one_statement(project: Project) -> None:
    session = create_session(project)
    appending.append(project, session.pk, [EntryDraft(ModelOutput(text="done"))] * 9)
    read = list[int]()

    @writing()
    def parse() -> None:
        for position, _ in outputs_between(Span(str(session.pk), 1, 9), 9, newest=True):
            read.append(position)
            time.sleep(SECONDS / 3)

    with pytest.raises(TransactionTooLong):
        parse()
    assert 2 <= len(read) < 6


def test_an_append_ends_within_a_loop_without_statements(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, computed = create_session(project), list[int]()

    def slow(*arguments: Any, **options: Any) -> Any:
        computed.append(len(computed))
        if len(computed) == 2:
            for limit in connection.execute_wrappers:
                limit.until = 0.0  # type: ignore[attr-defined]
        return advance(*arguments, **options)

    monkeypatch.setattr(appending, "advance", slow)
    with pytest.raises(TransactionTooLong):
        appending.append(project, session.pk, [EntryDraft(ModelInput(content="go"))] * 9)
    assert computed == [0, 1]
    assert not Entry.objects.exists()
