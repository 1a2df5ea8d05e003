"""The outcome of an action as a result that can be recorded."""

import json
from typing import Any

from historyapp.core.entries import ToolCall, ToolResult
from historyapp.core.json import depth_exceeds, dump_json
from historyapp.core.results import (
    ActionError,
    ActionInterrupted,
    ActionSuccess,
    as_tool_result,
    from_exception,
)
from historyapp.wire.episodes import ToolCallOut

AnyToolCall = ToolCall | ToolCallOut
Result = ActionSuccess | ActionError | ActionInterrupted


def result_of(outcome: object) -> Result:
    """A result as it is, an exception as an error, any other value as a success."""
    match outcome:
        case ActionSuccess():
            return ActionSuccess(outputs=recordable(outcome.outputs))
        case ActionError() | ActionInterrupted():
            return outcome
        case BaseException():
            details = from_exception(outcome)
            return ActionError(reason=details.message or details.repr, error=details)
    return ActionSuccess(outputs=recordable(outcome))


def tool_result_of(tool_call: AnyToolCall, outcome: object) -> ToolResult:
    """The same for one tool call of a provider."""
    result = as_tool_result(result_of(outcome), tool_call.name)
    return result.model_copy(update={"tool_call_id": tool_call.id})


def recordable(value: Any) -> Any:
    """The value if JSON can represent it exactly, else its text, which is what a model reads anyway."""
    if isinstance(value, str):
        return value
    try:
        if not depth_exceeds(value) and json.loads(dump_json(value)) == value:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001  a broken __str__ may raise anything
        return f"<{type(value).__name__} that cannot be shown>"
