"""A model call keeps nothing that other requests wait for longer than necessary."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from historyapp.core.entries import EntryDraft
from historyapp.core.json_memory import memory_of
from historyapp.core.prepared import Prepared, prepare
from historyapp.core.slots import Slots
from historyapp.llm.model_calls import call_model
from historyapp.models import Project, large_reads
from historyapp.models.large_reads import RequestRead
from historyapp.models.long_rows import MAX_READ, bytes_left
from historyapp.services import append, call_memory, model_calls
from historyapp.services.call_memory import CallMemory
from historyapp.services.reservations import reserve
from historyapp.services.snapshots import serve_context
from tests.api.agent import Agent, ask
from tests.llm.loopback import Answer, Loopback, Recorded, Step

CALL = {"model": "gpt-5", "policy": "live"}


@pytest.mark.django_db(transaction=True)
def test_a_model_call_holds_no_slot_for_large_reads(
    run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(1, of_owner=1, waiting=0)
    monkeypatch.setattr(large_reads, "LARGE_READS", slots)
    monkeypatch.setattr(large_reads, "VERY_LARGE", 10)
    monkeypatch.setattr(large_reads, "WAIT_SECONDS", 0)
    taken = list[int]()

    def count_slots(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        taken.append(slots._taken.total())
        return function(*args, **options)

    monkeypatch.setattr(model_calls, "reserve", partial(count_slots, reserve))
    monkeypatch.setattr(model_calls, "call_model", partial(count_slots, call_model))
    tokens = large_reads.request_read.set(RequestRead()), bytes_left.set(MAX_READ)
    try:
        loopback.steps.append(Answer(text="It is in the parser."))
        run.append(ask("find it"))
        assert run.post("/calls", CALL).status == 200
    finally:
        large_reads.request_read.reset(tokens[0])
        bytes_left.reset(tokens[1])
    assert taken == [1, 0]


@pytest.mark.django_db(transaction=True)
def test_the_tokens_of_a_response_are_counted_before_others_have_to_wait(
    run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting and writing 500,000 characters takes 0.1 s."""
    in_transaction = list[bool]()

    def prepared(draft: EntryDraft) -> Prepared:
        in_transaction.append(connection.in_atomic_block)
        return prepare(draft)

    loopback.steps.append(Answer(text="It is in the parser."))
    run.append(ask("find it"))
    monkeypatch.setattr(append, "prepare", prepared)
    assert run.post("/calls", CALL).status == 200
    assert run.get()["head"] == 2
    assert in_transaction == [False]


def test_what_a_client_sends_counts_from_the_start_of_its_call_to_the_end(
    run: Agent, loopback: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten empty lists have 30 characters in JSON and take 640 bytes in memory."""
    run.append(ask("find it"))
    memory, counted = CallMemory(), list[int]()
    answer = loopback.default
    options: dict[str, Any] = {"metadata": {"a": [[]] * 1000}}

    def compute(*args: Any) -> Any:
        counted.append(memory.shares.of(project.pk))
        return serve_context(*args)

    def note(request: Recorded) -> Step:
        counted.append(memory.shares.of(project.pk))
        return answer(request)

    loopback.default = note
    monkeypatch.setattr(call_memory, "SMALL", 0)
    monkeypatch.setattr(model_calls, "CALL_MEMORY", memory)
    monkeypatch.setattr(model_calls, "serve_context", compute)
    run.post("/calls", {**CALL, "options": options})
    assert len(counted) == 2
    assert min(counted) > memory_of(options) > 60_000
    assert memory.shares.of(project.pk) == 0
