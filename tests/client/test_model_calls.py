"""Model calls by the server: the client gets the response as a stream, and the log has it or the error."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.live_server_helper import LiveServer

from historyapp.client import (
    AsyncPlayhead,
    AsyncRecorder,
    Conflict,
    Delta,
    Invalid,
    ModelCallFailed,
    Playhead,
    RecordedResponse,
    Recorder,
    ServerFailed,
    ServerUnavailable,
)
from historyapp.client.endpoints.model_calls import EventDecoder
from historyapp.llm.retries import RetryPolicy
from historyapp.services import model_calls
from tests.client.proxy import FaultyProxy, lost_response, responding
from tests.llm.loopback import Answer, Broken, Call, Loopback, Refusal

READ = Call("call_1", "read_file", '{"path": "a.py"}')
OPENAI, ANTHROPIC = "gpt-5", "claude-opus-5"


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.setattr(model_calls, "RETRIES", RetryPolicy(sleep=lambda _: None, random=lambda: 0.0))
    with Loopback() as loopback:
        for name, value in loopback.environment.items():
            monkeypatch.setenv(name, value)
        yield loopback


@pytest.fixture
def run(recorder: Recorder) -> Recorder:
    recorder.say("Find the bug.")
    return recorder


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_a_response_is_streamed_and_recorded(run: Recorder, loopback: Loopback, model: str) -> None:
    loopback.steps.append(Answer(text="It is in line 7.", sizes=(4,)))
    events = list(run.playhead.call_model(run.session_id, model=model, max_tokens=4000, policy="live"))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "It is in line 7."
    answered = events[-1]
    assert isinstance(answered, RecordedResponse)
    assert (answered.position, answered.number, answered.output.text) == (2, 1, "It is in line 7.")
    assert answered.usage is not None
    assert answered.usage.output > 0
    assert run.playhead.snapshot(run.session_id, answered.snapshot).output_position == 2


def test_a_loop_needs_no_sdk(run: Recorder, loopback: Loopback) -> None:
    loopback.steps.extend([Answer(calls=(READ,)), Answer(text="Line 7.")])
    (call,) = run.call_model(model=OPENAI).output.tool_calls
    assert call.arguments == {"path": "a.py"}
    with pytest.raises(Conflict):
        run.call_model(model=OPENAI)
    run.after_call(call, "def parse(text): ...")
    assert run.call_model(model=ANTHROPIC).output.text == "Line 7."
    assert [step.status for step in run] == ["success", "answered"]


def test_a_provider_that_fails_before_it_responds_leaves_the_history_unchanged(
    run: Recorder, loopback: Loopback
) -> None:
    loopback.default = lambda _: Refusal(400, "We do not like this.")
    with pytest.raises(ModelCallFailed) as caught:
        run.call_model(model=OPENAI)
    assert (caught.value.status, caught.value.retryable) == (502, False)
    assert "We do not like this." in (caught.value.words or "")
    assert caught.value.provider
    assert len(run) == 0


def test_a_response_that_breaks_off_is_an_error_after_its_beginning(
    run: Recorder, loopback: Loopback
) -> None:
    loopback.default = lambda _: Broken("error", after=4)
    events = run.playhead.call_model(run.session_id, model=OPENAI)
    assert isinstance(next(events), Delta)
    with pytest.raises(ModelCallFailed):
        list(events)
    assert len(run) == 0


def test_a_model_call_that_has_started_is_not_retried(
    run: Recorder, loopback: Loopback, proxy: FaultyProxy, api_key: str
) -> None:
    proxy.faults = [lost_response]
    with Playhead(proxy.url, api_key) as shaky:
        with pytest.raises(ServerUnavailable):
            list(shaky.call_model(run.session_id, model=OPENAI, idempotency_key="k"))
        (answered,) = shaky.call_model(run.session_id, model=OPENAI, idempotency_key="k")
    assert isinstance(answered, RecordedResponse)
    assert (len(proxy.seen), len(loopback.requests), len(run)) == (2, 1, 1)


def test_a_model_call_without_a_provider_is_invalid(run: Recorder, loopback: Loopback) -> None:
    with pytest.raises(Invalid, match="model"):
        run.call_model(model="nobody-7")


def test_a_providers_failure_is_final(run: Recorder, proxy: FaultyProxy, api_key: str) -> None:
    problem = json.dumps({"type": "/docs/errors#model-call-failed", "detail": "no"}).encode()
    proxy.faults = [responding(502, {"Content-Type": "application/problem+json"}, problem)]
    with Playhead(proxy.url, api_key) as client, pytest.raises(ModelCallFailed):
        client.serve_context(run.session_id, count=True)
    assert len(proxy.seen) == 1


def test_the_asynchronous_clients_call_models_too(
    live_server: LiveServer, api_key: str, loopback: Loopback
) -> None:
    async def loop() -> None:
        async with AsyncPlayhead(live_server.url, api_key) as playhead:
            recorder = await AsyncRecorder.open(playhead)
            await recorder.say("Find the bug.")
            assert (await recorder.call_model(model=OPENAI)).output.text == "All is well."

    asyncio.run(loop())


APPENDED: dict[str, Any] = {
    "position": 2, "number": 1, "head": 2, "snapshot": "0197c7e1-0c2d-7a10-8b11-0a1b2c3d4e5f",
    "provider": "openai", "model": "m", "finish_reason": "stop", "latency": 0.5, "usage": None,
    "money": "unknown",
    "output": {"thoughts": None, "text": "é", "tool_calls": [], "use_tool": None},
}  # fmt: skip


def event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


STREAM = b": ping\n\n" + event("delta", {"kind": "text", "text": "é\\n\n"}) + event("appended", APPENDED)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_the_events_do_not_depend_on_how_a_stream_is_split(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    reader = EventDecoder()
    events = [event for a, b in pairwise(places) for event in reader.feed(STREAM[a:b])]
    list(reader.feed(None))
    assert events == [Delta(kind="text", text="é\\n\n"), RecordedResponse.model_validate(APPENDED)]


def test_a_stream_that_ends_early_is_an_error() -> None:
    reader = EventDecoder()
    list(reader.feed(STREAM[:-1]))
    with pytest.raises(ServerUnavailable):
        list(reader.feed(None))


@pytest.mark.parametrize("data", ["{", "[]", "7", '{"text": 7}', "[" * 100_000])
@pytest.mark.parametrize("name", ["delta", "appended", "error"])
def test_an_invalid_event_is_an_error_of_the_server(name: str, data: str) -> None:
    if (name, data) == ("error", '{"text": 7}'):
        data = "null"
    with pytest.raises(ServerFailed):
        list(EventDecoder().feed(f"event: {name}\ndata: {data}\n\n".encode()))
