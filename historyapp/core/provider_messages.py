"""Reads assistant messages of any provider: OpenAI chat, OpenAI responses or Anthropic.

Any field may have any type: agents pass on what their SDK or a compatible server returned.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from historyapp.core.content import arguments_of
from historyapp.core.json import text
from historyapp.core.text import Text

_RESPONSE_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items of OpenAI responses that are calls of the agent's tools, and the fields with their arguments."""
_THINKING = ("thinking", "redacted_thinking")


class _Shape(BaseModel):
    """For the OpenAPI document. Further fields are accepted and not recorded."""

    model_config = ConfigDict(extra="allow")


class ChatFunction(_Shape):
    name: Text
    arguments: Any = Field(default=None, description="JSON text, or an object.")


class ChatToolCall(_Shape):
    """A tool call of OpenAI's Chat Completions."""

    id: Text
    type: Literal["function"]
    function: ChatFunction


class ToolUseBlock(_Shape):
    """A tool call of Anthropic's Messages."""

    id: Text
    type: Literal["tool_use"]
    name: Text
    input: Any = None


class FunctionCallItem(_Shape):
    """A tool call of OpenAI's Responses."""

    call_id: Text
    type: Literal["function_call"]
    name: Text
    arguments: Any = Field(default=None, description="JSON text, or an object.")


ProviderToolCall = ChatToolCall | ToolUseBlock | FunctionCallItem


class MessageFields(NamedTuple):
    """An assistant message as the fields of a ``model_output``."""

    text: str = ""
    thoughts: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    reasoning: tuple[Any, ...] = ()


def call_fields(tool_call: Any) -> Any:
    """``{id, name, arguments}`` of a tool call in a provider's shape. Anything else is returned unchanged."""
    if not isinstance(tool_call, dict):
        return tool_call
    for kind, arguments in (("function", "arguments"), ("custom", "input")):
        if isinstance(tool_call.get(kind), dict):
            return _fields(tool_call, "id", tool_call[kind], arguments)
    match tool_call.get("type"):
        case "tool_use":
            return _fields(tool_call, "id", tool_call, "input")
        case "function_call" | "custom_tool_call" as kind:
            return _fields(tool_call, "call_id", tool_call, _RESPONSE_CALLS[kind])
    return tool_call


def _fields(tool_call: dict[str, Any], id: str, named: dict[str, Any], arguments: str) -> dict[str, Any]:
    fields = {"id": tool_call.get(id), "name": named.get("name")}
    return {
        **{name: value for name, value in fields.items() if value is not None},
        "arguments": arguments_of(named.get(arguments)),
    }


def read_message(message: dict[str, Any]) -> MessageFields:
    """The fields of a message; empty for an unknown shape. Tool calls without an id get one.

    Calls of tools that the provider runs itself are left out, because the agent has no result for them.
    """
    choices = message.get("choices")  # of a whole chat completion
    first = choices[0] if isinstance(choices, list) and choices else None
    inner = first.get("message") if isinstance(first, dict) else None
    message = inner if isinstance(inner, dict) else message
    content = message.get("content")
    blocks = [*_blocks(content), *_blocks(message.get("output"))]
    if message.get("type") in _RESPONSE_CALLS:
        blocks.append(message)
    parts = []
    for block in blocks:  # a message of OpenAI responses holds the parts
        parts += _blocks(block.get("content")) if block.get("type") == "message" else [block]
    texts = [content] if isinstance(content, str) else list(_texts(parts))
    cited = any(part.get("citations") for part in parts)  # then the parts are pieces of one text
    written = ("" if cited else "\n\n").join(filter(None, texts))
    return MessageFields(
        written or text(message.get("refusal")),
        "\n\n".join(filter(None, _thoughts(message, blocks))),
        tuple(_calls(message, blocks)),
        tuple(_reasoning(message, blocks)),
    )


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _texts(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        if part.get("type") in ("text", "output_text"):
            yield text(part.get("text"))
        elif part.get("type") == "refusal":
            yield text(part.get("refusal"))


def _thoughts(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[str]:
    yield text(message.get("reasoning_content")) or text(message.get("reasoning"))
    for block in blocks:
        if block.get("type") == "thinking":
            yield text(block.get("thinking"))
        elif block.get("type") == "reasoning":
            for part in (*_blocks(block.get("summary")), *_blocks(block.get("content"))):
                yield text(part.get("text"))


def _reasoning(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[Any]:
    """The blocks that the provider requires in later requests."""
    yield from _blocks(message.get("reasoning_details")) or _blocks(message.get("thinking_blocks"))
    for block in blocks:
        kind = block.get("type")
        if kind in _THINKING or (kind == "reasoning" and block.get("encrypted_content")):
            yield block


def _calls(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    tool_calls = _blocks(message.get("tool_calls"))
    if not tool_calls and isinstance(message.get("function_call"), dict):
        tool_calls = [{"function": message["function_call"]}]
    tool_calls += [block for block in blocks if block.get("type") in ("tool_use", *_RESPONSE_CALLS)]
    calls = [tool_call for tool_call in map(call_fields, tool_calls) if text(tool_call.get("name"))]
    used_ids = {tool_call.get("id") for tool_call in calls}
    number = 0
    for tool_call in calls:
        id = text(tool_call.get("id"))
        while not id:
            number += 1
            id = "" if f"call_{number}" in used_ids else f"call_{number}"
        yield {"id": id, "name": tool_call["name"], "arguments": arguments_of(tool_call.get("arguments"))}
