"""A model call keeps nothing that other requests wait for longer than necessary."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from historyapp.core.entries import EntryDraft
from historyapp.core.prepared import Prepared, prepare
from historyapp.core.slots import Slots
from historyapp.llm.model_calls import call_model
from historyapp.models import large_reads
from historyapp.models.large_reads import RequestRead
from historyapp.models.long_rows import MAX_READ, bytes_left
from historyapp.services import append, model_calls
from historyapp.services.reservations import reserve
from tests.api.agent import Agent, ask
from tests.llm.loopback import Answer, Loopback


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
        assert run.post("/calls", {"model": "gpt-5", "policy": "live"}).status == 200
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
    assert run.post("/calls", {"model": "gpt-5", "policy": "live"}).status == 200
    assert run.get()["head"] == 2
    assert in_transaction == [False]
