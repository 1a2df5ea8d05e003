"""Anthropic messages, with thinking that has to come back byte for byte."""

from typing import Any

import anthropic
import pytest
from hypothesis import given

from historyapp.llm.anthropic_messages import DEFAULT_MAX_TOKENS
from historyapp.llm.completions import Completion, collect
from historyapp.llm.deltas import UsageDelta
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import PROVIDERS
from tests.llm.answers import answers, collected, read, streamed, whole
from tests.llm.conftest import APIS, Caller
from tests.llm.loopback import Answer, Call, Loopback

API = APIS[2]
START = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 3}}}
USED = {"output_tokens": 5, "input_tokens": None, "cache_read_input_tokens": None}
STOP = {"type": "message_stop"}


def block(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, value: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": value})


def of(*events: dict[str, Any], reason: str = "end_turn") -> Completion:
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": USED}
    return collect(read("anthropic", [START, *events, end, STOP]))


@given(answers())
def test_the_raw_message_is_the_unstreamed_one(answer: Answer) -> None:
    assert collected("anthropic", answer).output.raw_message == whole("anthropic", answer)


@given(answers())
def test_thinking_is_kept_verbatim_and_in_order(answer: Answer) -> None:
    blocks = whole("anthropic", answer)["content"]
    expected = [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
    assert collected("anthropic", answer).output.reasoning == expected


def test_the_official_client_reads_the_same_message(loopback: Loopback) -> None:
    answer = Answer(
        text="I look.", thoughts="Where?", opaque="x", redacted="y", calls=(Call("c", "f", '{"a": 1}'),)
    )
    loopback.steps.append(answer)
    messages: Any = API.context["messages"]
    with anthropic.Anthropic(max_retries=0).messages.stream(
        model="m", max_tokens=9, messages=messages
    ) as stream:
        theirs = stream.get_final_message().to_dict()
    ours = collected("anthropic", answer).output.raw_message or {}
    assert theirs["content"] == ours["content"]
    assert theirs["stop_reason"] == ours["stop_reason"]


def test_a_response_is_accepted_in_the_next_request(loopback: Loopback, caller: Caller) -> None:
    loopback.steps.append(Answer(thoughts="Where?", opaque="x", redacted="y", calls=(Call("c", "f"),)))
    completion = caller.collected(API.request())
    spoken = {"role": "assistant", "content": (completion.output.raw_message or {})["content"]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "nothing"}]}
    messages = [*API.context["messages"], spoken, result]
    assert caller.collected(ModelRequest(API.model, {"messages": messages})).output.text == "All is well."
    assert loopback.requests[-1].body["messages"] == messages


def test_a_request_always_has_an_output_limit() -> None:
    body = PROVIDERS["anthropic"].body
    assert body(API.request(), "m")["max_tokens"] == DEFAULT_MAX_TOKENS
    assert body(API.request(max_output_tokens=5), "m")["max_tokens"] == 5


def test_text_split_by_citations_is_one_paragraph() -> None:
    citation = {"type": "char_location", "cited_text": "b"}
    cited = block(
        1,
        {"type": "text", "text": "", "citations": None},
        {"type": "text_delta", "text": "b"},
        {"type": "citations_delta", "citation": citation},
    )
    output = of(*text(0, "a "), *cited, *text(2, " c")).output
    assert output.text == "a b c"
    assert (output.raw_message or {})["content"][1]["citations"] == [citation]


def test_text_after_anything_else_is_a_new_paragraph() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    search_call = block(1, search, {"type": "input_json_delta", "partial_json": '{"query": "x"}'})
    output = of(*text(0, "I search."), *search_call, *text(2, "Found.")).output
    assert output.text == "I search.\n\nFound."
    assert output.tool_calls == ()
    assert (output.raw_message or {})["content"][1]["input"] == {"query": "x"}


def test_a_tool_call_in_one_event_is_complete() -> None:
    output = of(*block(0, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}})).output
    assert [call.arguments for call in output.tool_calls] == [{"a": 1}]


def test_later_counts_overwrite_and_the_others_stay() -> None:
    completion = of()
    assert completion.usage is not None
    assert completion.usage.raw == {"input_tokens": 3, "output_tokens": 5}
    deltas = streamed("anthropic", Answer(cached=9))
    usages = [delta.usage.input for delta in deltas if isinstance(delta, UsageDelta)]
    assert usages == [109, 109]


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        ("stop_sequence", "stop"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "paused"),
        ("something_new", "other"),
    ],
)
def test_stop_reasons_are_translated(reason: str, known: str) -> None:
    finished = of(reason=reason).finished
    assert (finished.reason, finished.provider_reason) == (known, reason)


def test_a_response_without_its_last_event_is_incomplete() -> None:
    with pytest.raises(ValueError, match="not complete"):
        collect(read("anthropic", [START, *text(0, "a")]))


@pytest.mark.parametrize(
    "content_block",
    [
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "thinking", "thinking": "so"},
    ],
)
def test_a_block_ends_once(content_block: dict[str, Any]) -> None:
    events = block(0, content_block)
    assert of(*events, *[events[-1]] * 3).output == of(*events).output
    with pytest.raises(KeyError):
        of(*events, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}})
