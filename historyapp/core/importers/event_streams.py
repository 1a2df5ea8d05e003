"""Builds the complete message from a recorded event stream."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from historyapp.core.embedded_json import MAX_EMBEDDED_VALUES
from historyapp.core.json import listing, mapping, parse_embedded, text
from historyapp.core.json_counts import count_values

SMALL_VALUES = 1_000
"""JSON values in an event of a text, of a tool call or of reasoning, with usage. The probabilities of a token
and 20 others have 250."""
_DATA = re.compile(r"^data:(.*)", re.MULTILINE)


class _TooManyValues(Exception):
    """The events have more than :data:`MAX_EMBEDDED_VALUES` values beyond :data:`SMALL_VALUES` of each."""


def streamed_message(stream: str) -> dict[str, Any] | None:
    """The complete response of an Anthropic or OpenAI event stream, or an object with an ``error``.

    None if the text is not such a stream.
    """
    try:
        for event in _events(stream):
            if event.get("type") == "message_start":
                return _anthropic(_events(stream))
            if "choices" in event:
                return _openai(_events(stream))
    except _TooManyValues:
        fault = (
            f"Its events have more than {MAX_EMBEDDED_VALUES:,} JSON values beyond {SMALL_VALUES:,} of each."
        )
        return {"error": f"The recorded response was not read. {fault}"}
    return None


def _events(stream: str) -> Iterator[dict[str, Any]]:
    """The events, one at a time: together they may have millions of values."""
    left = MAX_EMBEDDED_VALUES
    for line in _DATA.finditer(stream):
        data = line[1].strip()
        left -= max(0, count_values(data, left + SMALL_VALUES) - SMALL_VALUES)
        if left < 0:
            raise _TooManyValues
        try:
            event = parse_embedded(data)
        except ValueError:
            continue  # "[DONE]" or truncated
        if isinstance(event, dict):
            yield event


def _anthropic(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    inputs: dict[Any, str] = {}
    for event in events:
        index = event.get("index") if isinstance(event.get("index"), int) else None
        match event.get("type"):
            case "message_start":
                message = dict(mapping(event.get("message")))
            case "content_block_start":
                blocks[index] = dict(mapping(event.get("content_block")))
            case "content_block_delta" if index in blocks:
                _add_delta(blocks[index], mapping(event.get("delta")), inputs, index)
            case "message_delta":
                message.update(mapping(event.get("delta")))
                message["usage"] = {**mapping(message.get("usage")), **mapping(event.get("usage"))}
    for index, input_json in inputs.items():
        blocks[index]["input"] = input_json
        with suppress(ValueError):
            blocks[index]["input"] = parse_embedded(input_json or "{}")
    return {**message, "role": "assistant", "content": list(blocks.values())}


def _add_delta(block: dict[str, Any], delta: dict[str, Any], inputs: dict[Any, str], index: Any) -> None:
    match delta.get("type"):
        case "text_delta":
            block["text"] = text(block.get("text")) + text(delta.get("text"))
        case "thinking_delta":
            block["thinking"] = text(block.get("thinking")) + text(delta.get("thinking"))
        case "signature_delta":
            block["signature"] = text(block.get("signature")) + text(delta.get("signature"))
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + text(delta.get("partial_json"))
        case "citations_delta":
            block["citations"] = [*listing(block.get("citations")), delta.get("citation")]


def _openai(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[Any, dict[str, Any]] = {}
    for event in events:
        response.update({name: value for name, value in event.items() if name != "choices" and value})
        choice = next(iter(map(mapping, listing(event.get("choices")))), {})
        delta = mapping(choice.get("delta"))
        for name in ("content", "refusal", "reasoning_content"):
            if text(delta.get(name)):
                message[name] = text(message.get(name)) + text(delta.get(name))
        for part in map(mapping, listing(delta.get("tool_calls"))):
            index = part.get("index") if isinstance(part.get("index"), int) else len(calls)
            tool_call = calls.setdefault(
                index, {"type": "function", "function": {"name": "", "arguments": ""}}
            )
            if text(part.get("id")):
                tool_call["id"] = part["id"]
            for name, value in mapping(part.get("function")).items():
                if name in ("name", "arguments"):
                    tool_call["function"][name] += text(value)
        if choice.get("finish_reason"):
            response["finish_reason"] = choice["finish_reason"]
    message["tool_calls"] = list(calls.values())
    choice = {"message": message, "finish_reason": response.pop("finish_reason", None)}
    return {**response, "choices": [choice]}
