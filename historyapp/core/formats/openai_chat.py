"""Entries as OpenAI chat messages: each call answered directly after it, arguments as JSON text."""

from collections.abc import Iterable, Iterator
from typing import Any

from historyapp.core.entries import Entry, MemoryNotebook, ModelInput, SystemInstruction, ToolCall, ToolResult
from historyapp.core.formats.parts import openai_content
from historyapp.core.formats.turns import (
    Aside,
    CallIds,
    Turn,
    legal_name,
    reported,
    returned,
    spoken,
    turns,
)
from historyapp.core.text import clean_value, dump_json

LONGEST_ID = 40
"""Characters; the API refuses longer ids of calls."""
_INSTRUCTING = ("system", "developer")


def messages(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Live entries, oldest first, as messages. Instructions and notebooks stand where they were given."""
    ids = CallIds(LONGEST_ID)
    for item in turns(entries):
        told = _turn(item, ids) if isinstance(item, Turn) else _aside(item)
        yield from map(clean_value, told)


def _aside(aside: Aside) -> Iterator[dict[str, Any]]:
    match aside.body:
        case SystemInstruction(text=text) | MemoryNotebook(content=text):
            role, content = "system", openai_content(text)
        case ModelInput(channel=channel, content=said):
            role, content = "system" if channel in _INSTRUCTING else "user", openai_content(said)
        case ToolResult() as result:
            role, content = "user", reported(result)
    if content and (not isinstance(content, str) or content.strip()):
        yield {"role": role, "content": content}


def _turn(turn: Turn, ids: CallIds) -> Iterator[dict[str, Any]]:
    text = spoken(turn.output)
    said = text if text.strip() else None
    calls = [(ids.of(turn.position, call), call) for call in turn.output.tool_calls]
    if calls:
        yield {"role": "assistant", "content": said, "tool_calls": [_call(id, call) for id, call in calls]}
        for (id, _), result in zip(calls, turn.results, strict=True):
            yield {"role": "tool", "tool_call_id": id, "content": returned(result)}
        return
    if said:
        yield {"role": "assistant", "content": said}
    for result in turn.results:
        yield {"role": "user", "content": reported(result, turn.output)}


def _call(id: str, call: ToolCall) -> dict[str, Any]:
    function = {"name": legal_name(call.name), "arguments": dump_json(clean_value(object_of(call.arguments)))}
    return {"id": id, "type": "function", "function": function}


def object_of(arguments: Any) -> dict[str, Any]:
    """Arguments as the object that providers want; what was written instead of one stands under ``raw``."""
    return arguments if isinstance(arguments, dict) else {"raw": arguments}
