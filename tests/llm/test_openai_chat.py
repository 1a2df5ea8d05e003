"""Chat completions of OpenAI and of compatible servers."""

from typing import Any

import openai
import pytest
from hypothesis import given

from historyapp.llm.completions import Completion, collect
from historyapp.llm.deltas import ThoughtDelta
from tests.llm.answers import answers, collected, read, whole
from tests.llm.loopback import Answer, Call, Loopback


def chunks(*deltas: dict[str, Any], reason: str | None = "stop") -> list[dict[str, Any]]:
    head = {"id": "c1", "model": "m", "object": "chat.completion.chunk"}
    events = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*events, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]


def of(*deltas: dict[str, Any], reason: str = "stop") -> Completion:
    return collect(read("openai", chunks(*deltas, reason=reason)))


@given(answers())
def test_the_raw_message_is_the_one_of_an_unstreamed_answer(answer: Answer) -> None:
    expected = whole("openai", answer)["choices"][0]["message"]
    assert collected("openai", answer).output.raw_message == expected


def test_the_official_client_reads_the_same_message(loopback: Loopback) -> None:
    loopback.default = lambda _: Answer(text="I look.", calls=(Call("call_1", "f", '{"a": 1}'),), sizes=(3,))
    client = openai.OpenAI(max_retries=0)
    with client.chat.completions.stream(
        model="gpt-5.3", messages=[{"role": "user", "content": "a"}]
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    ours = collected("openai", loopback.default(loopback.requests[0])).output
    assert ours.raw_message is not None
    assert message.content == ours.raw_message["content"]
    assert message.tool_calls is not None
    assert [call.function.arguments for call in message.tool_calls] == ['{"a": 1}']


def test_only_the_first_choice_counts() -> None:
    events = chunks({"content": "a"})
    events.insert(1, {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]})
    completion = collect(read("openai", events))
    assert (completion.output.text, completion.finished.provider_reason) == ("a", "stop")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_compatible_servers_is_thought(field: str) -> None:
    output = of({field: "Hm"}, {field: "m."}, {"content": "Yes."}).output
    assert (output.thoughts, output.text) == ("Hmm.", "Yes.")
    assert output.raw_message is not None
    assert output.raw_message[field] == "Hmm."


def test_reasoning_blocks_of_compatible_servers_are_kept_for_replay() -> None:
    block = {"type": "reasoning.encrypted", "data": "AAAA", "index": 0}
    output = of({"reasoning_details": [block]}, {"content": "Yes."}).output
    assert output.reasoning == [block]
    assert output.raw_message is not None
    assert output.raw_message["reasoning_details"] == [block]


def test_tool_calls_without_an_index_are_distinguished_by_id() -> None:
    def piece(id: str | None, arguments: str) -> dict[str, Any]:
        return {"tool_calls": [{"id": id, "function": {"name": id and "f", "arguments": arguments}}]}

    calls = of(
        piece("a", '{"x"'), piece(None, ": 1}"), piece("b", "{}"), reason="tool_calls"
    ).output.tool_calls
    assert [(call.id, call.arguments) for call in calls] == [("a", {"x": 1}), ("b", {})]


def test_tool_calls_that_end_with_stop_are_tool_calls() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    assert of({"tool_calls": [call]}, reason="stop").finished.reason == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "known"), [("length", "length"), ("content_filter", "refusal"), ("something_new", "other")]
)
def test_finish_reasons_are_translated(reason: str, known: str) -> None:
    finished = of({"content": "a"}, reason=reason).finished
    assert (finished.reason, finished.provider_reason) == (known, reason)


def test_an_answer_without_a_finish_reason_is_incomplete() -> None:
    with pytest.raises(ValueError, match="not complete"):
        collect(read("openai", chunks({"content": "a"}, reason=None)))


def test_empty_thoughts_are_not_sent() -> None:
    assert not any(isinstance(delta, ThoughtDelta) for delta in read("openai", chunks({"reasoning": ""})))
