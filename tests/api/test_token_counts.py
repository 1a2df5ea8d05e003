"""A count of tokens that waits for its provider delays no other read."""

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection

from historyapp.core.slots import Slots
from historyapp.front.application import Front
from historyapp.services import call_memory, token_counts
from historyapp.services.call_memory import CallMemory
from historyapp.services.token_counts import lending_thread
from tests.api.agent import Agent, Received, ask
from tests.api.test_problems import assert_problem
from tests.front.limits import small_limits
from tests.front.one_request import get


def test_a_request_that_waits_for_a_provider_gives_its_thread_to_others() -> None:
    """Here one request at a time may have a thread."""
    other_ran, ended = threading.Event(), list[str]()

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/count":
            with lending_thread.get()():
                assert other_ran.wait(5)
        ended.append(environ["PATH_INFO"])
        other_ran.set()
        start_response("200 OK", [])
        return [b""]

    async def run() -> None:
        front = Front(application, small_limits(), 1)
        await asyncio.gather(get(front, "/count"), get(front, "/read"))

    asyncio.run(run())
    assert ended == ["/read", "/count"]


def count(run: Agent) -> Received:
    return run.post("/contexts", {"policy": "live", "model": "claude-opus-4-5", "count": True})


@pytest.mark.parametrize(("own", "status"), [(1, 429), (2, 503)])
def test_further_counts_are_refused_while_too_many_wait(
    run: Agent, monkeypatch: pytest.MonkeyPatch, own: int, status: int
) -> None:
    run.append(ask("find it"))
    refused = list[Received]()

    def answer_late(request: object) -> int:
        refused.append(count(run))
        return 7

    monkeypatch.setattr(token_counts.COUNTS, "slots", Slots(1, of_owner=own, waiting=0))
    monkeypatch.setattr(token_counts, "count_tokens", answer_late)
    for _ in range(2):
        assert count(run)["tokens"]["counted"] == 7
    for response in refused:
        assert_problem(response, status, "leave `count` out")
        assert response.headers["Retry-After"] == "2"


@pytest.mark.django_db(transaction=True)
def test_a_count_holds_memory_for_its_context_and_no_connection(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.append(ask("x" * 5000))
    memory, held = CallMemory(), list[tuple[int, bool]]()
    monkeypatch.setattr(call_memory, "SMALL", 1000)
    monkeypatch.setattr(token_counts, "CALL_MEMORY", memory)

    def note(request: object) -> int:
        held.append(
            (memory.shares._bytes.total(), connection.vendor == "sqlite" or connection.connection is None)
        )
        return 7

    monkeypatch.setattr(token_counts, "count_tokens", note)
    assert count(run)["tokens"]["counted"] == 7
    ((size, is_free),) = held
    assert size > 5000
    assert is_free
    assert memory.shares._bytes.total() == 0
