"""Few model calls of a project compute at the same time, and each gives back what others wait for."""

from contextvars import copy_context
from typing import Any

import pytest

from historyapp.core.slots import Slots
from historyapp.front.model_call_process import begin_call
from historyapp.models import Project, large_reads
from historyapp.services import model_call_slots, model_calls
from historyapp.services.append import append
from historyapp.services.caps import set_caps
from historyapp.services.model_call_slots import COMPUTING
from tests.api.agent import Agent, Received, ask
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Loopback, Recorded, Step

CALL = {"model": "gpt-5", "policy": "live"}


def call(run: Agent, body: dict[str, Any]) -> Received:
    """As the process for model calls carries it out."""

    def carry_out() -> Received:
        with begin_call(lambda kind, content: None, 0.0):
            return run.post("/calls", body)

    return copy_context().run(carry_out)


@pytest.mark.parametrize(("own", "status"), [(1, 429), (2, 503)])
def test_a_call_waits_for_a_slot_before_its_body_is_parsed(
    run: Agent, project: Project, monkeypatch: pytest.MonkeyPatch, own: int, status: int
) -> None:
    slots = Slots(1, of_owner=own, waiting=0)
    monkeypatch.setattr(COMPUTING, "slots", slots)
    slots.take(project.pk.bytes, 0)
    assert_problem(call(run, {"options": 5}), status, "smaller `max_tokens`")
    slots.give_back(project.pk.bytes)
    for _ in range(2):
        assert_problem(call(run, {"options": 5}), 422)


def test_a_call_that_waits_for_its_provider_has_no_slot(
    run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots, answer, taken = Slots(1, of_owner=1, waiting=0), loopback.default, list[int]()

    def note(request: Recorded) -> Step:
        taken.append(slots._taken.total())
        return answer(request)

    loopback.default = note
    monkeypatch.setattr(COMPUTING, "slots", slots)
    run.append(ask("find it"))
    for _ in range(2):
        assert call(run, CALL).status == 200
    assert taken == [0, 0]


def test_a_call_that_is_refused_gives_its_slot_for_large_reads_back(
    run: Agent, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(1, of_owner=1, waiting=0)
    monkeypatch.setattr(large_reads, "LARGE_READS", slots)
    monkeypatch.setattr(large_reads, "VERY_LARGE", 1)
    run.append(ask("find it"))
    set_caps(project, {"day": 0})
    for _ in range(2):
        assert_problem(call(run, CALL), 402)
    assert slots._taken.total() == 0


@pytest.mark.parametrize(("long", "turns"), [(10, 1), (1_000_000, 0)])
def test_one_long_response_of_a_project_is_recorded_at_a_time(
    run: Agent,
    loopback: Loopback,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    long: int,
    turns: int,
) -> None:
    """36 that ended together held up the model calls of another project for 10 s."""
    slots, taken = Slots(2, of_owner=1, waiting=1), list[int]()

    def count_turns(*args: Any, **options: Any) -> Any:
        taken.append(slots._taken[project.pk])
        return append(*args, **options)

    monkeypatch.setattr(model_call_slots, "RECORDING", slots)
    monkeypatch.setattr(model_call_slots, "LONG", long)
    monkeypatch.setattr(model_calls, "append", count_turns)
    run.append(ask("find it"))
    for _ in range(2):
        assert run.post("/calls", CALL).status == 200
    assert taken == [turns, turns]
    assert not slots._taken


def test_a_paid_response_is_recorded_even_if_its_turn_does_not_come(
    run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(2, of_owner=1, waiting=1)
    slots.take(project.pk, 0)
    monkeypatch.setattr(model_call_slots, "RECORDING", slots)
    monkeypatch.setattr(model_call_slots, "LONG", 10)
    monkeypatch.setattr(model_call_slots, "RECORD_SECONDS", 0)
    run.append(ask("find it"))
    assert run.post("/calls", CALL).status == 200
    assert run.get()["head"] == 2
    assert slots._taken.total() == 1
