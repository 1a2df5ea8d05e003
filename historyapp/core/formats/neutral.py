"""A context's messages as log bodies, so that one rule pairs calls with results for contexts and exports.

Messages come in any order and from any provider: tool calls as OpenAI nests them or as the log has them,
content as text, neutral parts or the blocks of an Anthropic answer.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from historyapp.core.entries import Body, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.formats.parts import are_parts, plain_text
from historyapp.core.formats.turns import Aside, Turn, paired
from historyapp.core.manifest import Context, Message, Segment
from historyapp.core.text import depth_exceeds

_CALLS = ("tool_use", "function_call", "server_tool_use")
_MAKERS = {"thinking": "anthropic", "redacted_thinking": "anthropic", "reasoning": "openai"}


def leading_texts(context: Context) -> list[str]:
    """The system messages that a context begins with."""
    return [plain_text(message.content) for message in context.messages[: leading(context.messages)]]


def leading(messages: Sequence[Message]) -> int:
    """How many system messages come first."""
    return next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))


def conversation_of(context: Context) -> list[Turn | Aside]:
    """What follows the leading system messages, each call answered once. The live screen comes last."""
    stable, rest = halves(context)
    return [*stable, *rest]


def halves(context: Context) -> tuple[list[Turn | Aside], list[Turn | Aside]]:
    """The conversation: the part that the next one will begin with too, then the rest."""
    messages = context.messages
    start = leading(messages)
    cut = _whole(messages, start, max(start, min(context.stable, len(messages))))
    return mended(messages[start:cut], context), [*mended(messages[cut:], context), *_screen(context)]


def _whole(messages: Sequence[Message], start: int, cut: int) -> int:
    """The cut, or where the turn begins whose results it would tear off."""
    following = (message.role for message in messages[cut:])
    if "tool" not in takewhile(lambda role: role != "assistant", following):
        return cut
    roles = [message.role for message in messages[start:cut]]
    return cut - 1 - roles[::-1].index("assistant") if "assistant" in roles else start


def _screen(context: Context) -> Iterator[Aside]:
    if context.live_screen.strip():
        yield Aside(0, ModelInput(channel="live_screen", content=context.live_screen))


def mended(messages: Iterable[Message], context: Context | None = None) -> list[Turn | Aside]:
    """Messages with each call answered once. Each keeps the number of its step, or 0."""
    segments = context.manifest.segments if context else []
    return list(paired((_step(message, segments), body_of(message)) for message in messages))


def _step(message: Message, segments: list[Segment]) -> int:
    if message.segment is None or not 0 <= message.segment < len(segments):
        return 0
    return segments[message.segment].step or 0


def body_of(message: Message) -> Body:
    """What the log would hold of a message."""
    match message.role:
        case "assistant":
            return _output(message)
        case "tool":
            return ToolResults(results=(_result(message),))
        case "system":
            return ModelInput(channel="system", content=plain_text(message.content))
        case "user":
            return ModelInput(content=message.content)


def _output(message: Message) -> ModelOutput:
    content, reasoning = message.content, message.reasoning
    calls = [_call(call) for call in message.tool_calls or () if isinstance(call, dict)]
    if are_parts(content):
        blocks = [part for part in content if isinstance(part, dict)]
        calls = calls or [_call(block) for block in blocks if block.get("type") in _CALLS]
        reasoning = reasoning or [block for block in blocks if block.get("type") in _MAKERS]
        said = [part for part in content if part not in reasoning]
        said = [part for part in said if not (isinstance(part, dict) and part.get("type") in _CALLS)]
        content = plain_text(said) if are_parts(said) else "\n\n".join(p for p in said if isinstance(p, str))
    if message.provider is not None:
        reasoning = [block for block in reasoning if message.provider.startswith(_maker(block))]
    return ModelOutput(text=plain_text(content), tool_calls=tuple(calls), reasoning=reasoning)


def _maker(block: Any) -> str:
    """The provider whose shape a block of reasoning has."""
    kind = block.get("type") if isinstance(block, dict) else None
    return _MAKERS.get(kind, "nobody") if isinstance(kind, str) else "nobody"


def _call(call: dict[str, Any]) -> ToolCall:
    inner = call.get("function")
    told = inner if isinstance(inner, dict) else call
    id, name = call.get("id") or call.get("call_id"), told.get("name")
    arguments = told.get("arguments", told.get("input", {}))
    return ToolCall(
        id=id if isinstance(id, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=_object(arguments),
    )


def _object(arguments: Any) -> Any:
    """JSON text as the object that it is; anything else as it came."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        value = json.loads(arguments or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) and not depth_exceeds(value) else arguments


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _result(message: Message) -> ToolResult:
    id = message.tool_call_id or ""
    if message.is_error:
        return ToolResult(tool_call_id=id, status="error", reason=plain_text(message.content))
    return ToolResult(tool_call_id=id, status="success", outputs=message.content)
