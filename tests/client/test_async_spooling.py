"""The async client spools as the blocking one does."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from historyapp.client import (
    ActionProposal,
    AsyncPlayhead,
    AsyncRecorder,
    ModelInput,
    NotSpooled,
    Playhead,
    Recorder,
    ServerUnavailable,
    Spool,
    UseTool,
)
from tests.client.proxy import FaultyProxy, lost_request, lost_response

LOOK = ActionProposal(thoughts="so", use_tool=UseTool(name="ls"))
Loop = Callable[[AsyncPlayhead], Awaitable[None]]
Run = Callable[[Loop], None]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "agent.spool", max_bytes=65_536, patience=0.5)


@pytest.fixture
def session_id(playhead: Playhead) -> UUID:
    return playhead.create_session().id


@pytest.fixture
def run(proxy: FaultyProxy, api_key: str, spool: Spool) -> Run:
    def run(loop: Loop) -> None:
        async def with_client() -> None:
            async with AsyncPlayhead(proxy.url, api_key, on_outage=spool) as playhead:
                await loop(playhead)

        asyncio.run(with_client())

    return run


def test_writes_of_an_outage_arrive_once_and_in_order(
    run: Run, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID
) -> None:
    async def outage(client: AsyncPlayhead) -> None:
        proxy.faults = [*[lost_response] * 4, *[lost_request] * 10_000]
        recorder = AsyncRecorder(client, session_id)
        assert (await recorder.say("go")).spooled
        assert (await recorder.after_parse(LOOK)).spooled
        assert (await recorder.after_execute("fine")).spooled
        with pytest.raises(ServerUnavailable, match=r"cannot be spooled\. 3 writes wait"):
            await recorder.context()
        proxy.faults = []
        assert await client.flush(20) == 0
        assert not (await recorder.say("on")).spooled

    run(outage)
    assert [entry.kind for entry in playhead.entries(session_id)] == [
        "model_input",
        "model_output",
        "tool_results",
        "model_input",
    ]


def test_spooled_writes_are_sent_automatically_or_by_the_next_agent(
    run: Run, proxy: FaultyProxy, spool: Spool, playhead: Playhead, session_id: UUID
) -> None:
    async def outage(client: AsyncPlayhead) -> None:
        proxy.faults = [lost_request] * 10_000
        await client.append(session_id, [ModelInput(content="go")])

    async def wait(client: AsyncPlayhead) -> None:
        for _ in range(200):
            if not spool.waiting():
                return
            await asyncio.sleep(0.05)

    run(outage)
    assert spool.waiting() == 1
    proxy.faults = []
    run(wait)
    assert Recorder(playhead, session_id).session.head == 1


def test_a_full_spool_raises_an_error(run: Run, proxy: FaultyProxy, session_id: UUID) -> None:
    async def fill(client: AsyncPlayhead) -> None:
        proxy.faults = [lost_request] * 10_000
        for _ in range(100):
            await client.append(session_id, [ModelInput(content="x" * 4000)])

    with pytest.raises(NotSpooled, match="is full"):
        run(fill)


def test_a_read_sees_writes_that_were_spooled_before_it(
    run: Run, proxy: FaultyProxy, session_id: UUID
) -> None:
    async def loop(client: AsyncPlayhead) -> None:
        proxy.faults = [lost_request] * 4
        recorder = AsyncRecorder(client, session_id)
        await recorder.after_parse(LOOK)
        await recorder.after_execute("fine")
        assert await recorder.fmt_list() == "1. Executed `ls()`: fine"

    run(loop)
