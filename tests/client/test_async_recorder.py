"""The async recorder does what the blocking one does."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    ActionInterrupted,
    ActionProposal,
    AsyncPlayhead,
    AsyncRecorder,
    Conflict,
    Recorder,
    UseTool,
)
from historyapp.models import Project
from tests.api.conftest import key_for

LOOK = ActionProposal(thoughts="so", use_tool=UseTool(name="ls"))
COMPLETION = {
    "choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "read", "arguments": "{}"}}]}}]
}
IN_PYTHON_ONLY = {"current_episode", "cursor", "episodes", "register_action", "register_result"}
"""What only code of the earlier history asks for, which did not await."""

Loop = Callable[[AsyncPlayhead], Awaitable[None]]


@pytest.fixture
def run(live_server: LiveServer, api_key: str) -> Callable[[Loop], None]:
    def run(loop: Loop) -> None:
        async def with_client() -> None:
            async with AsyncPlayhead(live_server.url, api_key) as playhead:
                await loop(playhead)

        asyncio.run(with_client())

    return run


def test_the_async_recorder_has_the_same_methods() -> None:
    public = {name for name in vars(Recorder) if not name.startswith("_")}
    assert {name for name in vars(AsyncRecorder) if not name.startswith("_")} == public - IN_PYTHON_ONLY


def test_a_loop_records_and_reads(run: Callable[[Loop], None]) -> None:
    async def loop(playhead: AsyncPlayhead) -> None:
        recorder = await AsyncRecorder.open(playhead, title="a run", settings={"full_message_count": 1})
        await recorder.say("go")
        await recorder.after_parse(LOOK)
        await recorder.after_execute(ValueError("no"))
        (call,) = await recorder.after_model(COMPLETION)
        await recorder.after_call(call, "fine")
        assert await recorder.fmt_list() == (
            "1. Executed `ls()`: Action failed: 'no'\n2. Executed `read()`: fine"
        )
        assert [step.number async for step in recorder] == [1, 2]
        assert [message.role for message in await recorder.get_messages()][-1] == "tool"
        await recorder.configure(full_message_count=0)
        assert "tool" not in [message.role for message in await recorder.get_messages()]
        child = await recorder.fork(1, title="other")
        assert (await child.session()).steps == 1
        await recorder.rewind(1)
        assert (await recorder.fmt_paragraph()).count("### Step") == 1
        assert await recorder.compile_progress(max_tokens=0) == ""

    run(loop)


def test_the_step_in_flight_is_found_and_reported_after_a_crash(
    run: Callable[[Loop], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def loop(playhead: AsyncPlayhead) -> None:
        id = uuid4()
        first = await AsyncRecorder.open(playhead, id)
        assert await first.in_flight() is None
        await first.after_parse(LOOK)
        again = await AsyncRecorder.open(playhead, id)
        left = await again.in_flight()
        assert left is not None
        assert left.call == "ls()"
        await again.after_execute(ActionInterrupted(feedback="restarted"))
        assert await again.in_flight() is None

    run(loop)
    assert "has an action in flight: step 1" in caplog.text


def test_an_id_of_a_session_of_another_project_is_a_conflict(
    recorder: Recorder, live_server: LiveServer
) -> None:
    key = key_for(Project.objects.create(name="Charlie's"), "charlie")

    async def loop() -> None:
        async with AsyncPlayhead(live_server.url, key) as stranger:
            with pytest.raises(Conflict):
                await AsyncRecorder.open(stranger, recorder.session_id)

    asyncio.run(loop())
