"""A model call that waits for its provider's pause may only go on if it may still begin."""

from collections.abc import Callable
from contextlib import closing
from contextvars import copy_context
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError

from historyapp.core.errors import PlayheadError
from historyapp.llm.retries import RetryPolicy
from historyapp.models import Project, Session, Snapshot, SpendingCounter, SpendingReservation
from historyapp.services import call_memory, faults, model_calls
from historyapp.services.append import append, lock_session
from historyapp.services.call_memory import OF_PROJECT, CallMemory
from historyapp.services.caps import set_caps
from historyapp.services.contexts import RequestedContext
from historyapp.services.deletions import hide
from historyapp.services.leaving_clients import has_client_left
from historyapp.services.model_calls import ModelCall, ModelCallRequest
from historyapp.services.projects import change_project
from historyapp.services.sessions import change_session
from historyapp.wire.problems import DiskFull
from tests.api.agent import Agent, ask
from tests.api.test_costs_of_calls import CALL, counted
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Broken, Loopback, Recorded, Refusal, Step
from tests.services.drafts import ask as asked

Change = Callable[[Project], object]


def session_of(project: Project) -> Session:
    return Session.objects.get(project=project)


CHANGES: dict[str, tuple[Change, int]] = {
    "cap": (lambda project: set_caps(project, {"day": 0}), 402),
    "model": (lambda project: change_project(project, {"allowed_models": ["claude-haiku-4-5"]}), 403),
    "scope": (lambda project: project.api_keys.update(scopes=["read", "write"]), 403),
    "archive": (
        lambda project: change_session(project, session_of(project).pk, {"status": "archived"}),
        409,
    ),
    "append": (lambda project: append(project, session_of(project).pk, [asked("and this")]), 409),
    "erasure": (lambda project: hide(lock_session(project, session_of(project).pk), "alice"), 404),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_further_attempt_is_sent_after_a_change_that_forbids_the_call(
    change: str, run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("find it"))
    apply, status = CHANGES[change]
    loopback.default = lambda _: Refusal(429, "slow down", "rate_limit_error")

    def change_meanwhile(_: float) -> None:
        apply(project)

    policy = RetryPolicy(sleep=change_meanwhile, random=lambda: 0.0)
    monkeypatch.setattr(model_calls, "RETRIES", policy)
    assert_problem(run.post("/calls", CALL), status)
    assert len(loopback.requests) == 1
    assert (counted(project), SpendingReservation.objects.exists()) == (0, False)
    if change not in ("archive", "erasure"):
        assert run.get("/entries")["items"][-1]["kind"] == "debug_log"
        assert Snapshot.objects.get().output_position is None
    else:
        assert not Snapshot.objects.exists(), "no entry names it"


def test_a_refused_call_of_an_erased_session_costs_nothing(
    run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("find it"))
    loopback.default = lambda _: Refusal(400, "no such option", "invalid_request_error")
    log_failure = model_calls.ModelCall._log_failure

    def erase_and_log(call: model_calls.ModelCall, error: PlayheadError) -> None:
        hide(lock_session(project, session_of(project).pk), "alice")
        log_failure(call, error)

    monkeypatch.setattr(model_calls.ModelCall, "_log_failure", erase_and_log)
    assert_problem(run.post("/calls", CALL), 404)
    assert (counted(project), SpendingReservation.objects.exists()) == (0, False)


@pytest.mark.parametrize("refused", [False, True])
def test_a_call_holds_memory_for_its_context_until_it_ends(
    refused: bool, run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("find it"))
    memory = CallMemory()
    monkeypatch.setattr(model_calls, "CALL_MEMORY", memory)
    monkeypatch.setattr(call_memory, "SMALL", 0)
    answer, during = loopback.default, list[bool]()

    def note(request: Recorded) -> Step:
        during.append(bool(memory.shares.of(project.pk)))
        return Refusal(400, "no such option", "invalid_request_error") if refused else answer(request)

    loopback.default = note
    status = run.post("/calls", CALL).status
    assert (during, memory.shares.of(project.pk), status == 200) == ([True], 0, not refused)
    monkeypatch.setattr(call_memory, "SMALL", 1 << 20)  # it does not count, but none is built meanwhile
    with memory.held(project.pk, OF_PROJECT + 1):
        assert_problem(run.post("/calls", CALL), 429)
    assert len(loopback.requests) == 1


def test_no_further_attempt_is_sent_for_a_client_that_has_left(
    run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("find it"))
    set_caps(project, {"day": 1_000_000})
    loopback.default = lambda _: Refusal(429, "slow down", "rate_limit_error")
    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(sleep=lambda _: None, random=lambda: 0.0))

    def call() -> None:
        has_client_left.set(lambda: True)
        assert_problem(run.post("/calls", CALL), 503, "has closed its connection")

    copy_context().run(call)
    assert len(loopback.requests) == 1
    assert (counted(project), SpendingReservation.objects.exists()) == (0, False)
    assert not Snapshot.objects.exists(), "it would explain the next output that the agent appends"


@pytest.mark.parametrize("kind", ["started", "text"])
def test_a_cancelled_answer_leaves_no_snapshot_that_would_explain_the_next_output(
    run: Agent, loopback: Loopback, project: Project, kind: str
) -> None:
    run.append(ask("find it"))
    loopback.steps.append(Broken("hang", after=4))
    call = ModelCall(session_of(project), ModelCallRequest(RequestedContext(model="gpt-5", policy="live")))
    with closing(call.deltas(Mock())) as deltas:
        assert any(delta.kind == kind for delta in deltas)
    assert not Snapshot.objects.exists()


def test_the_snapshot_of_an_answer_stays_if_only_the_end_of_its_commit_is_not_known(
    run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("find it"))
    append_answer = ModelCall._append
    monkeypatch.setattr(model_calls, "RECORD_SECONDS", 0.0)

    def append_and_fail(call: ModelCall, *arguments: Any) -> None:
        append_answer(call, *arguments)
        raise OperationalError("the connection was closed")

    monkeypatch.setattr(ModelCall, "_append", append_and_fail)
    call = ModelCall(session_of(project), ModelCallRequest(RequestedContext(model="gpt-5", policy="live")))
    with pytest.raises(OperationalError):
        list(call.deltas(Mock()))
    assert Snapshot.objects.get().output_position == session_of(project).head == 2


@pytest.mark.parametrize("fails", ["snapshot", "earlier"])
def test_no_model_is_called_while_its_response_could_not_be_stored(
    run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """On a full disk, counters could still change: of 48 calls, 39 were paid and not recorded."""
    full = DiskFull("The disk of the database is full.", retry_after=30)
    if fails == "snapshot":
        monkeypatch.setattr(model_calls, "record_snapshot", Mock(side_effect=full))
    else:
        monkeypatch.setattr(faults, "current_fault", lambda: full)
    run.append(ask("find it"))
    response = run.post("/calls", CALL)
    assert (response.status, response.body["type"][-9:]) == (503, "disk-full")
    assert loopback.requests == []
    assert not any(SpendingCounter.objects.values_list("counted", flat=True))
