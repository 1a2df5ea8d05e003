"""Contexts through the client: within a budget, in a provider's shape, and found again as snapshots."""

import asyncio
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    ActionProposal,
    AsyncPlayhead,
    AsyncRecorder,
    Invalid,
    Playhead,
    Recorder,
    SystemInstruction,
    UseTool,
)

READ: dict[str, Any] = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
COMPLETION = {
    "id": "chatcmpl-1",
    "model": "gpt-5.3",
    "choices": [{"message": {"content": "Found it."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 300, "completion_tokens": 3},
}


@pytest.fixture
def run(recorder: Recorder) -> Recorder:
    recorder.append(SystemInstruction(text="You repair code."))
    recorder.say("Find the bug.")
    for number in range(1, 4):
        recorder.after_parse(ActionProposal(thoughts="so", use_tool=UseTool(name=f"tool_{number}")))
        recorder.after_execute("x" * 400)
    return recorder


def test_a_context_has_the_shape_of_its_provider(run: Recorder) -> None:
    openai = run.context(format="openai_chat", max_tokens=4000, tools=[READ])
    assert openai.request["messages"][0] == {"role": "system", "content": "You repair code."}
    assert openai.request["tools"][0]["function"]["name"] == "read_file"
    anthropic = run.context(format="anthropic_messages", max_tokens=4000, live_screen="The screen.")
    assert set(anthropic.request) == {"system", "messages"}
    assert "The screen." in str(anthropic.request["messages"][-1])


def test_the_error_of_a_budget_that_is_too_small_names_one_that_works(run: Recorder) -> None:
    with pytest.raises(Invalid) as caught:
        run.context(policy="masked", max_tokens=3)
    smallest = caught.value.smallest
    assert smallest
    assert run.context(policy="masked", max_tokens=smallest).tokens.estimated <= smallest


def test_no_budget_differs_from_the_sessions_budget(run: Recorder) -> None:
    run.configure(max_tokens=500)
    assert run.context().manifest.max_tokens == 500
    assert run.context(max_tokens=None).manifest.max_tokens is None


def test_reading_a_context_records_nothing(playhead: Playhead, run: Recorder) -> None:
    seen = playhead.context(run.session_id, policy="live", format="plain", model="gpt-5.3", max_tokens=9000)
    assert (seen.snapshot, seen.manifest.policy) == (None, "live")
    assert playhead.serve_context(run.session_id, record=False).snapshot is None
    assert list(playhead.snapshots(run.session_id)) == []
    then = playhead.context(run.session_id, format="plain", as_of=4)
    assert "tool_1" in str(then.request)
    assert "tool_2" not in str(then.request)


def test_a_served_context_is_rebuilt_byte_for_byte(playhead: Playhead, run: Recorder) -> None:
    first = run.context(max_tokens=4000)
    run.say("And now?")
    second = run.context(max_tokens=4000)
    assert first.snapshot is not None
    assert second.snapshot is not None
    assert [item.id for item in playhead.snapshots(run.session_id, limit=1)] == [
        second.snapshot,
        first.snapshot,
    ]
    assert playhead.snapshot(run.session_id, first.snapshot).manifest == first.manifest
    rebuilt = playhead.snapshot_request(run.session_id, first.snapshot)
    assert (rebuilt.request, rebuilt.matches, rebuilt.sha256) == (first.request, True, first.sha256)
    diff = playhead.snapshot_diff(run.session_id, second.snapshot, first.snapshot)
    assert (diff.earlier, diff.later) == (first.snapshot, second.snapshot)
    assert [segment.source for segment in diff.segments.added] == ["input"]


def test_a_response_is_linked_with_its_context(playhead: Playhead, run: Recorder) -> None:
    context = run.context(model="gpt-5.3", max_tokens=4000)
    assert run.after_model(COMPLETION, context) == ()
    (item,) = playhead.snapshots(run.session_id)
    assert (item.output_position, item.tokens.billed) == (run.session.head, 300)
    assert run.context(model="gpt-5.3").tokens.learned_from == 1


def test_the_ledger_has_totals_and_steps(playhead: Playhead, run: Recorder) -> None:
    run.after_model(COMPLETION)
    ledger = playhead.ledger(run.session_id)
    assert (ledger.calls, ledger.usage.input, ledger.usage.output, ledger.models[0].model) == (
        1,
        300,
        3,
        "gpt-5.3",
    )
    steps = list(playhead.step_ledgers(run.session_id, limit=2))
    assert [step.input for step in steps] == [0, 0, 0, 300]
    assert playhead.ledger(run.session_id, as_of=4).calls == 0
    assert len(list(playhead.step_ledgers(run.session_id, as_of=4))) == 1


def test_the_asynchronous_recorder_serves_contexts_too(live_server: LiveServer, api_key: str) -> None:
    async def loop() -> None:
        async with AsyncPlayhead(live_server.url, api_key) as playhead:
            recorder = await AsyncRecorder.open(playhead)
            await recorder.say("Find the bug.")
            context = await recorder.context(format="openai_chat")
            assert context.request == {"messages": [{"role": "user", "content": "Find the bug."}]}
            await recorder.after_model(COMPLETION, context)
            assert [item.output_position async for item in playhead.snapshots(recorder.session_id)] == [2]

    asyncio.run(loop())


def test_all_messages_of_a_recorded_request_are_read_page_by_page(playhead: Playhead, run: Recorder) -> None:
    session = run.session_id
    first = playhead.recorded_request(session, 3, limit=2)
    assert (len(first.messages), first.total) == (2, 6)
    messages = list(playhead.recorded_messages(session, 3, limit=2))
    assert len(messages) == 6
    assert messages[:2] == first.messages
    assert [message.step for message in messages] == [None, None, 1, 1, 2, 2]


def test_the_async_client_reads_all_messages_too(
    run: Recorder, live_server: LiveServer, api_key: str
) -> None:
    async def read() -> list[str]:
        async with AsyncPlayhead(live_server.url, api_key) as playhead:
            return [each.role async for each in playhead.recorded_messages(run.session_id, 3, limit=4)]

    assert asyncio.run(read()) == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_a_what_if_is_saved_listed_and_deleted(playhead: Playhead) -> None:
    saved = playhead.save_what_if("small", policy="masked", max_tokens=0)
    assert (saved.policy, saved.max_tokens, saved.model) == ("masked", 0, None)
    assert list(playhead.what_ifs()) == [saved]
    playhead.delete_what_if(saved.id)
    assert list(playhead.what_ifs()) == []
