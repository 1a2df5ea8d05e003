"""What an agent asks to do, as it registers it (SEMANTICS B). What came back is in ``results``."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from historyapp.core.entries import ModelOutput, Thoughts, ToolCall, UseTool
from historyapp.core.text import Text


class ActionProposal(BaseModel):
    """One proposed action. Its public JSON schema leaves ``raw_message`` out: models must not write that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    thoughts: Text | Thoughts | None = None
    use_tool: UseTool
    raw_message: SkipJsonSchema[dict[str, Any] | None] = Field(default=None)
    """The assistant message as the provider gave it: ``content`` and ``tool_calls``."""


def output_of(proposal: ActionProposal) -> ModelOutput:
    """The log entry for a proposal. Provider tool calls are taken over from its raw message."""
    raw = proposal.raw_message or {}
    calls = raw.get("tool_calls")
    content = raw.get("content")
    return ModelOutput(
        thoughts=proposal.thoughts,
        text=content if isinstance(content, str) else "",
        tool_calls=tuple(_call(call) for call in calls if _is_call(call)) if isinstance(calls, list) else (),
        use_tool=proposal.use_tool,
        raw_message=proposal.raw_message,
    )


def _is_call(call: Any) -> bool:
    if not isinstance(call, dict) or not isinstance(call.get("id"), str):
        return False
    function = call.get("function", call)
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function", call)
    return ToolCall(id=call["id"], name=function["name"], arguments=function.get("arguments", {}))
