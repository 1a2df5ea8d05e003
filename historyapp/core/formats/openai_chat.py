"""Entries as OpenAI chat messages: each call answered directly after it, arguments as JSON text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from historyapp.core.entries import Entry, MemoryNotebook, ModelInput, SystemInstruction, ToolCall, ToolResult
from historyapp.core.formats.base import START, Frame, Item
from historyapp.core.formats.neutral import conversation_of, leading_texts
from historyapp.core.formats.parts import json_text, openai_content
from historyapp.core.formats.tools import Definition, openai_chat_tool, tools_as
from historyapp.core.formats.turns import (
    INSTRUCTING,
    Aside,
    CallIds,
    Turn,
    legal_name,
    object_of,
    reported,
    returned,
    spoken,
    turns,
)
from historyapp.core.manifest import Context
from historyapp.core.text import clean, clean_value

LONGEST_ID = 40
"""Characters; the API refuses longer ids of calls."""


def messages(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Live entries, oldest first, as messages. Instructions and notebooks stand where they were given."""
    return _messages(turns(entries))


def _messages(conversation: Iterable[Turn | Aside]) -> Iterator[dict[str, Any]]:
    ids = CallIds(LONGEST_ID)
    for item in conversation:
        told = _turn(item, ids) if isinstance(item, Turn) else _aside(item)
        yield from map(clean_value, told)


def _aside(aside: Aside) -> Iterator[dict[str, Any]]:
    match aside.body:
        case SystemInstruction(text=text) | MemoryNotebook(content=text):
            role, content = "system", openai_content(text)
        case ModelInput(channel=channel, content=said):
            role, content = "system" if channel in INSTRUCTING else "user", openai_content(said)
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
    function = {"name": legal_name(call.name), "arguments": json_text(object_of(call.arguments))}
    return {"id": id, "type": "function", "function": function}


class _OpenAIChat:
    """Requests to ``chat/completions``: ``tools`` and ``messages``."""

    name = "openai_chat"
    most = Frame(before=START)

    def render(self, context: Context, *, model: str, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        items = self.items(conversation_of(context))
        before, _ = self.frame(items)
        instructing = (context.system, context.notebook, *leading_texts(context))
        system = [{"role": "system", "content": clean(text)} for text in instructing if text.strip()]
        opening = [{"role": "user", "content": before}] if before else []
        shaped = self.tools(tools)
        return ({"tools": shaped} if shaped else {}) | {"messages": [*system, *opening, *items]}

    def items(self, conversation: Sequence[Turn | Aside]) -> list[Item]:
        return list(_messages(conversation))

    def frame(self, items: Sequence[Item]) -> Frame:
        return Frame() if items else self.most

    def tools(self, definitions: Sequence[Definition]) -> list[dict[str, Any]]:
        return tools_as(self.name, openai_chat_tool, definitions)


OPENAI_CHAT = _OpenAIChat()
