"""Calls through the real SDKs to a server that speaks as the providers do."""

import logging
import threading
import time

import pytest

from historyapp.core.errors import Invalid
from historyapp.core.usage import usage_of
from historyapp.llm import streams
from historyapp.llm.deltas import FinishedDelta, SilentDelta, StartedDelta, TextDelta
from historyapp.llm.errors import (
    KeyRefused,
    ResponseBroken,
)
from historyapp.llm.model_calls import call_model, count_tokens
from historyapp.llm.request import TimeLimits
from tests.llm.conftest import SCHEMA, Api, Caller
from tests.llm.loopback import Answer, Broken, Call, Loopback
from tests.llm.loopback.server import WRONG_KEY

READ = Call("call_1", "read_file", '{"path": "a.py"}')


def test_a_complete_response_becomes_one_output(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(
        Answer(text="I look.", thoughts="Where?", opaque="c2lnbmVk", calls=(READ,), cached=5)
    )
    completion = caller.collected(api.request(tools=True))
    assert (completion.output.text, completion.output.thoughts) == ("I look.", "Where?")
    assert [call.model_dump() for call in completion.output.tool_calls] == [
        {"id": "call_1", "name": "read_file", "arguments": {"path": "a.py"}}
    ]
    assert completion.finished.reason == "tool_calls"
    assert completion.started.provider == api.name
    assert (completion.tokens.cache_read, completion.tokens.output, completion.tokens.reasoning) == (5, 20, 7)
    assert completion.tokens.uncached == completion.tokens.input - 5
    convention = "anthropic" if api.name == "anthropic" else "openai"
    assert completion.usage is not None
    assert usage_of({"usage": completion.usage.raw, "usage_convention": convention}) == completion.tokens
    assert (completion.started.provider, completion.started.model) == (api.name, api.model.rpartition(":")[2])


def test_the_text_is_streamed(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Answer(text="abcdefghij", sizes=(4,)))
    deltas = caller.deltas(api.request())
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["abcd", "efgh", "ij"]
    assert isinstance(deltas[0], StartedDelta)
    assert isinstance(deltas[-1], FinishedDelta)


def test_the_request_carries_context_limit_tools_and_options(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    caller.collected(api.request(max_output_tokens=77, tools=True, options={"top_p": 0.5}))
    (request,) = loopback.requests
    assert request.path == api.path
    assert {name: request.body[name] for name in api.context} == api.context
    assert request.body["model"] == api.model.rpartition(":")[2]
    assert request.body["top_p"] == 0.5
    assert request.body["stream"] is True
    limit = {"openai": "max_completion_tokens", "openai_responses": "max_output_tokens"}
    assert request.body[limit.get(api.name, "max_tokens")] == 77
    (tool,) = request.body["tools"]
    assert SCHEMA in (tool.get("function", tool).get("parameters"), tool.get("input_schema"))


def test_nothing_is_sent_before_the_first_delta_is_read(loopback: Loopback, api: Api) -> None:
    call_model(api.request()).close()
    assert loopback.requests == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}])
def test_a_request_that_json_cannot_represent_is_never_sent(
    loopback: Loopback, api: Api, caller: Caller, value: object
) -> None:
    with pytest.raises(Invalid, match="JSON"):
        caller.deltas(api.request(options={"user": value}))
    assert loopback.requests == []


def test_closing_the_deltas_closes_the_connection_to_the_provider(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.steps.append(Broken("hang", after=api.half_way))
    deltas = call_model(api.request(), limits=TimeLimits(connect=5, read=20, total=20))
    assert any(isinstance(delta, TextDelta) for delta in deltas)
    deltas.close()
    assert loopback.requests[0].left.wait(60)


def test_a_call_can_be_ended_while_the_model_is_silent(
    loopback: Loopback, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.05)
    loopback.steps.append(Broken("hang", after=api.half_way))
    deltas = call_model(api.request(), limits=TimeLimits(connect=5, read=60, total=60))
    assert any(isinstance(delta, SilentDelta) for delta in deltas)
    started = time.monotonic()
    deltas.close()
    assert loopback.requests[0].left.wait(60)
    assert time.monotonic() - started < streams.JOIN_SECONDS


def test_an_empty_response_is_complete(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Answer())
    completion = caller.collected(api.request())
    assert (completion.output.text, completion.output.tool_calls, completion.finished.reason) == (
        "",
        (),
        "stop",
    )


def test_a_response_of_two_megabytes_is_complete(loopback: Loopback, api: Api, caller: Caller) -> None:
    text = "0123456789abcdef" * 131_072
    loopback.steps.append(Answer(text=text, sizes=(65_536,)))
    assert caller.collected(api.request()).output.text == text


def test_hostile_text_arrives_unchanged(loopback: Loopback, api: Api, caller: Caller) -> None:
    text = "</script>\0\ud800 \u2028 data: [DONE]\n\nevent: error"
    loopback.steps.append(Answer(text=text, calls=(Call("call_1", "write", '{"text": "\\ud800\\u0000"}'),)))
    output = caller.collected(api.request()).output
    assert output.text == text
    assert output.tool_calls[0].arguments == {"text": "\ud800\0"}


def test_arguments_that_are_not_a_json_object_stay_unchanged(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.steps.append(Answer(calls=(Call("call_1", "f", '{"path": '), Call("call_2", "f", "[1]"))))
    calls = caller.collected(api.request()).output.tool_calls
    assert [call.arguments for call in calls] == ['{"path": ', "[1]"]


def test_a_refusal_has_its_finish_reason(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Answer(refusal="I cannot help with that."))
    completion = caller.collected(api.request())
    assert completion.finished.reason == "refusal"
    assert "I cannot help with that." in str(completion.output.raw_message)


def test_a_response_that_was_cut_off_has_its_finish_reason(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    words = {"openai": "length", "openai_responses": "max_output_tokens", "anthropic": "max_tokens"}
    loopback.steps.append(Answer(text="To be con", reason=words[api.name]))
    finished = caller.collected(api.request()).finished
    assert (finished.reason, finished.provider_reason) == ("length", words[api.name])


def test_no_error_and_no_log_line_contains_the_key(
    loopback: Loopback,
    api: Api,
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, WRONG_KEY)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(KeyRefused) as caught:
        caller.deltas(api.request())
    error = caught.value
    assert "Incorrect API key provided" in error.provider_message
    assert WRONG_KEY in loopback.requests[0].headers["authorization"]
    assert WRONG_KEY not in caplog.text + str(error) + repr(error.fields)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_the_providers_count_tokens_themselves(loopback: Loopback, api: Api) -> None:
    request = api.request(max_output_tokens=50, tools=True, options={"temperature": 1})
    if api.name == "openai":
        with pytest.raises(Invalid, match="does not count"):
            count_tokens(request)
        return
    assert count_tokens(request) > 20
    counted = loopback.requests[0].body
    assert {"model", "tools"} < set(counted)
    assert not {"stream", "max_tokens", "max_output_tokens", "temperature", "store"} & set(counted)


def test_an_invalid_count_is_a_broken_response(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.llm.loopback.server.tokens", lambda body: "many")
    with pytest.raises(ResponseBroken, match="number of tokens"):
        count_tokens(
            Api(
                "anthropic", "", "claude-opus-5", {"messages": [{"role": "user", "content": "a"}]}, 0
            ).request()
        )


def test_calls_in_many_threads_do_not_mix(loopback: Loopback, api: Api) -> None:
    loopback.default = lambda request: Answer(text=request.body["user"] * 50, sizes=(7,))
    texts: dict[str, str] = {}

    def ask(name: str) -> None:
        deltas = call_model(api.request(options={"user": name}))
        texts[name] = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == {name: name * 50 for name in "abcdef"}
