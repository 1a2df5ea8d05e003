"""The outcome of an action as a result that can be recorded."""

import json
from typing import Any

from historyapp.core.entries import ToolCall
from historyapp.core.json import depth_exceeds, dump_json
from historyapp.core.results import (
    ActionError,
    ActionInterrupted,
    ActionSuccess,
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
