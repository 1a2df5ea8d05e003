"""Compression through both clients: started, waited for, estimated and compared."""

import asyncio
import threading
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection
from pytest_django.live_server_helper import LiveServer

from historyapp.client import AsyncPlayhead, ComparisonSide, Conflict, Invalid, Playhead
from tests.api.compressing import carry_out


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.enqueue.wake", lambda run: None)


@pytest.fixture
def six(playhead: Playhead) -> UUID:
    session_id = playhead.create_session().id
    for number in range(6):
        playhead.append_step(
            session_id,
            analysis_result="find it",
            execution_result=f"changed {number}.py",
            supervision_result="fine",
        )
    return session_id


def start_soon(work: Callable[[], None]) -> threading.Thread:
    """Runs a function a moment later, as a worker would."""

    def later() -> None:
        work()
        connection.close()

    timer = threading.Timer(0.2, later)
    timer.start()
    return timer


@pytest.mark.usefixtures("live_server")
def test_a_compression_is_waited_for(playhead: Playhead, six: UUID) -> None:
    started = playhead.compress(six, strategy="simple_extract")
    assert (started.joined, started.active, started.to_step) == (False, True, 2)
    assert playhead.compress(six, strategy="structured").joined is True
    worker = start_soon(lambda: carry_out(started.id, failing=(2,)))
    ended = playhead.wait_for_compression(six, started.id, timeout=20)
    worker.join()
    assert (ended.state, ended.done, ended.money) == ("partly_failed", 1, 0.0)
    assert [(error.from_step, error.error) for error in ended.errors] == [(2, "The model refused: no.")]
    assert [summary.run for summary in playhead.summaries(six)] == [started.id]
    assert playhead.retry_compression(six, started.id).state == "queued"
    assert playhead.cancel_compression(six, started.id).state == "cancelled"
    with pytest.raises(Conflict, match="was cancelled"):
        playhead.cancel_compression(six, started.id)
    assert [run.id for run in playhead.compressions(six)] == [started.id]


def test_waiting_has_a_time_limit(playhead: Playhead, six: UUID) -> None:
    started = playhead.compress(six, strategy="simple_extract")
    with pytest.raises(TimeoutError, match=r"still running after 0\.3 seconds"):
        playhead.wait_for_compression(six, started.id, timeout=0.3)


def test_the_async_client_waits_too(
    playhead: Playhead, live_server: LiveServer, api_key: str, six: UUID
) -> None:
    started = playhead.compress(six, strategy="simple_extract")

    async def wait() -> str:
        async with AsyncPlayhead(live_server.url, api_key) as client:
            with pytest.raises(TimeoutError):
                await client.wait_for_compression(six, started.id, timeout=0.1)
            worker = start_soon(lambda: carry_out(started.id))
            ended = await client.wait_for_compression(six, started.id, timeout=20)
            worker.join()
            return ended.state

    assert asyncio.run(wait()) == "succeeded"


def test_options_are_sent_unchanged(playhead: Playhead, six: UUID) -> None:
    response = playhead.estimate_compression(six, strategy="structured", from_step=1, to_step=-1, again=True)
    assert (response.steps, response.summaries, response.money) == (6, 2, 0.0)
    for wrong in (playhead.estimate_compression, playhead.compress):
        with pytest.raises(Invalid, match="nope"):
            wrong(six, strategy="structured", options={"nope": 1})


def test_two_strategies_are_compared(playhead: Playhead, six: UUID) -> None:
    sides: list[ComparisonSide] = [{"strategy": "simple_extract"}, {"strategy": "structured"}]
    made = playhead.compare(six, 1, 2, sides)
    for side in made.sides:
        carry_out(side.id)
    response = playhead.comparison(six, made.id)
    assert response.ended
    assert [item.text for item in response.sides[0].items] == ["did step 1", "did step 2"]
    assert response.recall is not None
    assert response.recall.searched_steps == 2
    rows = list(playhead.comparison_rows(six, made.id, limit=1))
    assert [(row.from_step, row.to_step, len(row.sides)) for row in rows] == [(1, 2, 2)]
    assert list(playhead.compressions(six)) == []
    assert len(list(playhead.compressions(six, trial=True))) == 2


def test_the_history_is_returned_as_text(playhead: Playhead, six: UUID) -> None:
    playhead.write_summary(six, 1, 2, "began")
    text = playhead.history(six)
    assert text.startswith("### Step 1:\n- **Analysis:** find it\n")  # all six are within the window
    assert playhead.history(six, as_of=3).count("### Step") == 1
