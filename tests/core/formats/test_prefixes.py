"""The hash of a request up to any part equals the hash of the request that ends there."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.context import Context
from historyapp.core.conversation import ConversationPart, InputMessage, Turn
from historyapp.core.entries import ModelOutput, ToolCall, ToolResult
from historyapp.core.formats import FORMATS, prefix_bytes
from historyapp.core.formats.calls import CallIds
from historyapp.core.formats.prefixes import RequestPrefix, prefix_sha256
from historyapp.core.formats.reasoning import response_order, sendable
from tests.core.formats.contexts import ENCRYPTED, FIELDS, REDACTED, SESSIONS, SIGNED, TOOLS, context
from tests.examples import examples

BINDING = [name for name, format in FORMATS.items() if format.reasoning_kinds]
EVERY = pytest.mark.parametrize("name", BINDING)


def hash_of(name: str, chosen: Context, tools: list[dict[str, Any]]) -> str:
    return hashlib.sha256(prefix_bytes(FORMATS[name].request(chosen, tools))).hexdigest()


@EVERY
@settings(max_examples=examples(150))
@given(conversation=SESSIONS, fields=FIELDS, tools=TOOLS)
def test_the_hash_at_each_part_is_that_of_the_request_that_ends_there(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], tools: list[dict[str, Any]]
) -> None:
    format, whole = FORMATS[name], context(name, conversation, **{**fields, "live_screen": ""})
    prefix, ids = RequestPrefix(format, whole, tools), CallIds(format.longest_id)
    for count, part in enumerate(whole.parts[whole.leading :], whole.leading):
        before = replace(whole, parts=whole.parts[:count])
        if before.leading == whole.leading:
            assert prefix.copy().sha256() == hash_of(name, before, tools)
        legal = [ids.of(part.position, id) for id in part.calls]
        prefix.add(format.identified(part, legal))
    assert prefix.sha256() == hash_of(name, whole, tools) == prefix_sha256(format, whole, tools)


@EVERY
@settings(max_examples=examples(100))
@given(conversation=SESSIONS, fields=FIELDS)
def test_a_request_with_a_further_item_begins_with_the_same_bytes(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any]
) -> None:
    format, whole = FORMATS[name], context(name, conversation, **{**fields, "live_screen": ""})
    prefix, ids = RequestPrefix(format, whole), CallIds(format.longest_id)
    for count, part in enumerate(whole.parts[whole.leading :], whole.leading):
        items = format.identified(part, [ids.of(part.position, id) for id in part.calls])
        if items and prefix.is_beginning_of(items[0]):
            ends = prefix_bytes(format.request(replace(whole, parts=whole.parts[:count])))
            after = prefix_bytes(format.request(replace(whole, parts=whole.parts[: count + 1])))
            assert after.startswith(ends[: -len(format.closing)].rstrip())
        prefix.add(items)


def answer(*reasoning: Any, text: str = "so", calls: int = 1, **fields: Any) -> ModelOutput:
    tool_calls = tuple(ToolCall(id=f"c{n}", name="ls", arguments={}) for n in range(calls))
    return ModelOutput(text=text, tool_calls=tool_calls, reasoning=list(reasoning), **fields)


def test_reasoning_is_sent_as_recorded_or_not_at_all() -> None:
    claude, openai = FORMATS["anthropic_messages"], FORMATS["openai_responses"]
    assert sendable(claude, answer(SIGNED, REDACTED)) == "all"
    assert sendable(claude, answer(SIGNED, {"type": "thinking", "thinking": "unsigned"})) == "none"
    assert sendable(claude, answer({**SIGNED, "extra": 1})) == "none"
    assert sendable(claude, answer({**SIGNED, "thinking": "\ud800"})) == "none"
    assert sendable(claude, answer(ENCRYPTED)) == sendable(openai, answer(SIGNED)) == "foreign"
    assert sendable(claude, answer(SIGNED, text="", calls=0)) == "none"
    assert sendable(openai, answer({**ENCRYPTED, "status": "completed", "content": []})) == "all"
    assert sendable(openai, answer({**ENCRYPTED, "status": None})) == "none"
    assert sendable(openai, answer({**ENCRYPTED, "content": [{"type": "reasoning_text"}]})) == "none"


def written(name: str, output: ModelOutput) -> list[str]:
    answers = tuple(ToolResult(tool_call_id=call.id, status="success") for call in output.tool_calls)
    bare = FORMATS[name].write(Turn(1, output, answers, has_reasoning=False))
    items = FORMATS[name].with_reasoning(bare.items, output)
    blocks = items[0]["content"] if name == "anthropic_messages" else items
    return [block["type"] for block in blocks if block["type"] != "function_call_output"]


def test_the_order_of_a_response_stays() -> None:
    texts = [
        {"type": "thinking"},
        {"type": "text"},
        {"type": "text"},
        {"type": "thinking"},
        {"type": "tool_use"},
    ]
    thinking = answer(SIGNED, REDACTED, raw_message={"role": "assistant", "content": texts})
    assert written("anthropic_messages", thinking) == ["thinking", "text", "redacted_thinking", "tool_use"]
    items = [{"type": "message"}, {"type": "reasoning"}, {"type": "function_call"}]
    assert written("openai_responses", answer(ENCRYPTED, raw_message={"output": items})) == [
        "message", "reasoning", "function_call",
    ]  # fmt: skip
    assert written("openai_responses", answer(ENCRYPTED)) == ["reasoning", "message", "function_call"]


def test_a_response_that_the_request_cannot_repeat_has_no_order() -> None:
    search = {"type": "web_search_call"}
    hosted = answer(ENCRYPTED, raw_message={"output": [search, {"type": "reasoning"}, {"type": "message"}]})
    assert response_order(FORMATS["openai_responses"], hosted, 1) == []
    after = [{"type": "reasoning"}, {"type": "message"}, {"type": "function_call"}, search]
    whole, cut = (answer(ENCRYPTED, raw_message={"output": items}) for items in (after, after[:2]))
    assert response_order(FORMATS["openai_responses"], whole, 1)
    assert response_order(FORMATS["openai_responses"], cut, 1) == []


@settings(max_examples=examples(100))
@given(texts=st.lists(st.sampled_from(["thinking", "text", "tool_use"]), max_size=6))
def test_blocks_are_equal_to_the_recorded_ones_in_any_order(texts: list[str]) -> None:
    raw = {"content": [{"type": kind} for kind in texts]}
    count = texts.count("thinking")
    output = answer(
        *[SIGNED] * count, text="t" * ("text" in texts), calls=texts.count("tool_use"), raw_message=raw
    )
    if sendable(FORMATS["anthropic_messages"], output) == "all":
        bare = FORMATS["anthropic_messages"].write(Turn(1, output, has_reasoning=False))
        items = FORMATS["anthropic_messages"].with_reasoning(bare.items, output)
        sent = [json.dumps(block) for block in items[0]["content"] if block["type"] == "thinking"]
        assert sent == [json.dumps(SIGNED)] * count


def test_an_input_between_two_outputs_does_not_change_the_order() -> None:
    conversation: list[ConversationPart] = [
        InputMessage(1, "go"),
        Turn(2, answer(text="a", calls=0)),
        InputMessage(3, "on"),
    ]
    whole = context("anthropic_messages", conversation)
    prefix = RequestPrefix(FORMATS["anthropic_messages"], whole)
    prefix.add(whole.parts[0].items)
    assert prefix.is_beginning_of(whole.parts[1].items[0])
    prefix.add(whole.parts[1].items)  # the request that ends here asks the model to continue
    assert not prefix.is_beginning_of(whole.parts[1].items[0])
