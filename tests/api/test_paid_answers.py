"""A paid answer waits for a database that cannot be used, and is recorded once."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import InterfaceError, InternalError, OperationalError

from historyapp.core.errors import Conflict
from historyapp.llm.completions import CompletionBuilder
from historyapp.models import Entry, IdempotencyKey, Project, Snapshot, SpendingReservation
from historyapp.services import model_calls
from historyapp.services.append import append
from historyapp.services.connections import release_connection
from historyapp.services.model_calls import ModelCall
from historyapp.wire.problems import DatabaseLocked
from tests.api.agent import Agent, ask
from tests.api.test_costs_of_calls import CALL, counted
from tests.api.test_model_calls import events_of
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Answer, Loopback

KEY = {"Idempotency-Key": "call-1"}
BROKEN = OperationalError("terminating connection due to administrator command")

COST = 240
"""Of the answer, in millionths of a dollar."""


@pytest.fixture
def ready(run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Agent:
    run.append(ask("find it"))
    monkeypatch.setattr(model_calls, "RECORD_PAUSE", 0.0)
    loopback.steps.append(Answer(text="Line 7."))
    return run


def last_event(response: Any) -> tuple[str, dict[str, Any]]:
    name, data = response.body.decode().strip().split("\n\n")[-1].split("\n", 1)
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[None]]:
    """Lets attempts to record an answer fail, each with the next error, and notes all attempts."""

    def patch(*errors: Exception, stores: bool = False, meanwhile: Callable[[], Any] = int) -> list[None]:
        append, left, attempts = ModelCall._append, list(errors), list[None]()

        def attempt(call: ModelCall, *arguments: Any) -> None:
            attempts.append(None)
            if stores or not left:
                append(call, *arguments)
            if left:
                meanwhile()
                raise left.pop(0)

        monkeypatch.setattr(ModelCall, "_append", attempt)
        return attempts

    return patch


@pytest.mark.parametrize("stores", [False, True])
def test_a_paid_answer_is_recorded_once_although_connections_break(
    ready: Agent, loopback: Loopback, fail: Any, *, stores: bool
) -> None:
    """Also if only the end of its commit was lost."""
    attempts = fail(BROKEN, stores=stores)
    name, appended = last_event(ready.post("/calls", CALL, KEY))
    assert (name, appended["position"], len(attempts)) == ("appended", 2, 2)
    outputs = Entry.objects.filter(kind="model_output")
    assert [entry.body["text"] for entry in outputs] == ["Line 7."]
    assert not Entry.objects.filter(kind="debug_log").exists()
    assert Snapshot.objects.get().output_position == 2
    assert events_of(ready.post("/calls", CALL, KEY)) == [("appended", appended)]
    assert len(loopback.requests) == 1


def test_a_paid_answer_waits_for_a_server_that_accepts_no_writes(
    ready: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover. psycopg raises an InternalError then."""
    left = [None, None]

    def append_later(*arguments: Any, **options: Any) -> Any:
        appended = append(*arguments, **options)
        if left:
            left.pop()
            raise InternalError("read-only") from psycopg.errors.ReadOnlySqlTransaction()
        return appended

    monkeypatch.setattr(model_calls, "append", append_later)
    name, appended = last_event(ready.post("/calls", CALL, KEY))
    assert (name, appended["position"], len(loopback.requests)) == ("appended", 2, 1)
    assert Entry.objects.filter(kind="model_output").count() == 1


def test_its_key_stays_running_and_the_client_stays_while_it_waits(
    ready: Agent, loopback: Loopback, fail: Any
) -> None:
    meanwhile = list[Any]()
    locked = DatabaseLocked("Another program has locked the database.")
    fail(
        *(BROKEN, InterfaceError("the connection is closed"), locked),
        meanwhile=lambda: meanwhile.append(ready.post("/calls", CALL, KEY)),
    )
    response = ready.post("/calls", CALL, KEY)
    assert b": the model is silent" in response.body
    assert response.body.count(b"event: appended") == 1
    for equal in meanwhile:
        assert_problem(equal, 409, "still running")
    assert (len(meanwhile), len(loopback.requests)) == (3, 1)


def test_an_answer_that_waits_has_no_connection_and_is_in_memory_once(
    ready: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, builders = list[str](), list[dict[str, Any]]()

    def release_later() -> None:
        events.append("released")
        release_connection()

    def attempt(call: ModelCall, *_: Any) -> None:
        builders.append(dict(vars(call._builder)))
        events.append("attempt")
        if events.count("attempt") == 3:
            raise Conflict("Another client has appended meanwhile.")
        raise BROKEN

    monkeypatch.setattr("historyapp.services.model_calls.release_connection", release_later)
    monkeypatch.setattr(ModelCall, "_append", attempt)
    ready.post("/calls", CALL)
    attempts = events[events.index("attempt") :]
    assert builders == [vars(CompletionBuilder())] * 3
    assert attempts[:5] == ["attempt", "released", "attempt", "released", "attempt"]


def test_another_clients_append_still_refuses_an_answer_that_was_not_stored(ready: Agent, fail: Any) -> None:
    fail(BROKEN, meanwhile=lambda: ready.append(ask("and this")))
    name, problem = last_event(ready.post("/calls", CALL, KEY))
    assert (name, problem["status"]) == ("error", 409)
    assert not Entry.objects.filter(kind="model_output").exists()


def test_an_answer_waits_for_a_limited_time(ready: Agent, fail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "RECORD_SECONDS", 0.0)
    attempts = fail(*[BROKEN] * 9)
    name, problem = last_event(ready.post("/calls", CALL, KEY))
    assert (name, problem["status"], len(attempts)) == ("error", 503, 1)
    assert not IdempotencyKey.objects.exists()
    assert not Snapshot.objects.exists()


@pytest.mark.parametrize("is_refused", [False, True])
def test_its_cost_is_counted_once_the_database_is_back(
    ready: Agent, project: Project, fail: Any, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """Also if it cannot be appended: the reserved maximum of 81,936 millionths of a dollar was counted."""
    delete, errors = SpendingReservation.delete, [BROKEN]

    def delete_later(row: SpendingReservation) -> Any:
        if errors:
            raise errors.pop()
        return delete(row)

    monkeypatch.setattr(SpendingReservation, "delete", delete_later)
    fail(BROKEN, meanwhile=(lambda: ready.append(ask("and this"))) if is_refused else int)
    name, _ = last_event(ready.post("/calls", CALL))
    assert (name, counted(project)) == ("error" if is_refused else "appended", COST)
    assert not SpendingReservation.objects.exists()
