"""Contexts as input of OpenAI's responses API, where calls, outputs and reasoning are items of their own."""

from collections.abc import Iterator, Sequence
from typing import Any

from historyapp.core.entries import ModelInput, ModelOutput, ToolCall, ToolResult
from historyapp.core.formats.base import START, Frame, Item
from historyapp.core.formats.neutral import conversation_of, leading_texts
from historyapp.core.formats.parts import json_text, responses_content
from historyapp.core.formats.tools import Definition, openai_responses_tool, tools_as
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
)
from historyapp.core.manifest import Context
from historyapp.core.text import clean, clean_value

LONGEST_ID = 64
"""Characters; the API refuses longer ids of calls."""


class _OpenAIResponses:
    """Requests to ``responses``: ``tools``, ``instructions`` and ``input``."""

    name = "openai_responses"
    most = Frame(before=START)

    def render(self, context: Context, *, model: str, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        items = self.items(conversation_of(context))
        before, _ = self.frame(items)
        rendered: dict[str, Any] = {}
        if shaped := self.tools(tools):
            rendered["tools"] = shaped
        if context.system.strip():
            rendered["instructions"] = clean(context.system)
        instructing = (context.notebook, *leading_texts(context))
        system = [_message("system", text) for text in instructing if text.strip()]
        opening = [_message("user", before)] if before else []
        return {**rendered, "input": [*system, *opening, *items]}

    def items(self, conversation: Sequence[Turn | Aside]) -> list[Item]:
        ids = CallIds(LONGEST_ID)
        return [
            item
            for said in conversation
            for item in (_turn(said, ids) if isinstance(said, Turn) else _aside(said))
        ]

    def frame(self, items: Sequence[Item]) -> Frame:
        return Frame() if items else self.most

    def tools(self, definitions: Sequence[Definition]) -> list[dict[str, Any]]:
        return tools_as(self.name, openai_responses_tool, definitions)


def _message(role: str, content: Any) -> Item:
    return {"type": "message", "role": role, "content": clean_value(content)}


def _aside(aside: Aside) -> Iterator[Item]:
    match aside.body:
        case ModelInput(channel=channel, content=said):
            content = responses_content(said)
            role = "system" if channel in INSTRUCTING else "user"
            if content and (not isinstance(content, str) or content.strip()):
                yield _message(role, content)
        case ToolResult() as result:
            yield _message("user", reported(result))


def _turn(turn: Turn, ids: CallIds) -> Iterator[Item]:
    text, calls = spoken(turn.output), turn.output.tool_calls
    reasoning = _reasoning(turn.output)
    message = [_message("assistant", text)] if text.strip() else []
    if not calls:
        yield from [*reasoning, *message] if message else []
        for result in turn.results:
            yield _message("user", reported(result, turn.output))
        return
    named = [(ids.of(turn.position, call), call) for call in calls]
    yield from [*message, *reasoning]
    yield from (_call(id, call) for id, call in named)
    for (id, _), result in zip(named, turn.results, strict=True):
        yield {"type": "function_call_output", "call_id": id, "output": _output(result)}


def _call(id: str, call: ToolCall) -> Item:
    arguments = json_text(object_of(call.arguments))
    return {"type": "function_call", "call_id": id, "name": legal_name(call.name), "arguments": arguments}


def _output(result: ToolResult) -> Any:
    content = responses_content(result.outputs) if result.status == "success" else ""
    return clean_value(content if isinstance(content, list) and content else returned(result))


def _reasoning(output: ModelOutput) -> list[Item]:
    """The reasoning items that OpenAI made itself and that stand for themselves, without its store."""
    return [
        {name: block[name] for name in ("type", "id", "summary", "encrypted_content")}
        for block in output.reasoning
        if isinstance(block, dict) and _is_whole(block) and clean_value(block) == block
    ]


def _is_whole(block: dict[str, Any]) -> bool:
    summary = block.get("summary")
    return (
        block.get("type") == "reasoning"
        and all(isinstance(block.get(name), str) and block[name] for name in ("id", "encrypted_content"))
        and isinstance(summary, list)
        and all(_is_summary(part) for part in summary)
    )


def _is_summary(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "summary_text" and isinstance(part.get("text"), str)


OPENAI_RESPONSES = _OpenAIResponses()
