"""Results of actions: the three states an agent registers, and how they read as text (SEMANTICS A, B)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from historyapp.core.entries import ErrorDetails, Record, ToolResult
from historyapp.core.text import Text, depth_exceeds, dump_json

_DEEPEST = 100
"""Levels of an exception's argument that is kept as it is: well within what the API takes."""


class ActionSuccess(Record):
    status: Literal["success"] = "success"
    outputs: Any = None


class ActionError(Record):
    status: Literal["error"] = "error"
    reason: Text
    error: ErrorDetails | None = None


class ActionInterrupted(Record):
    status: Literal["interrupted_by_human"] = "interrupted_by_human"
    feedback: Text


ActionResult = Annotated[ActionSuccess | ActionError | ActionInterrupted, Field(discriminator="status")]


def from_exception(exception: BaseException) -> ErrorDetails:
    """An exception as data. Works for every exception, also one whose ``str``, ``repr`` or ``args`` fail."""
    try:
        arguments = list(exception.args)
    except Exception:  # noqa: BLE001 a class may have put anything in its place
        arguments = []
    return ErrorDetails(
        args=[argument if _is_json(argument) else _safely(repr, argument) for argument in arguments],
        message=_safely(str, exception),
        exception_type=type(exception).__name__,
        repr=_safely(repr, exception),
    )


def _safely(show: type[str] | Any, value: object) -> str:
    try:
        return str(show(value))
    except Exception:  # noqa: BLE001 a broken __str__ or __repr__ may raise anything
        return f"<{type(value).__name__} that cannot be shown>"


def _is_json(value: object) -> bool:
    if depth_exceeds(value, _DEEPEST):
        return False
    try:
        dump_json(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, (str, int, float, bool, list, dict, type(None)))


def as_tool_result(result: ActionSuccess | ActionError | ActionInterrupted, tool_name: str) -> ToolResult:
    """The result of a whole action, whatever calls it made."""
    fields = result.model_dump(exclude_none=True)
    return ToolResult(tool_name=tool_name, **fields)


def result_text(result: ToolResult) -> str:
    """A result in one text: outputs (fenced when they have several lines), or why there are none."""
    match result.status:
        case "success":
            outputs = str(result.outputs)
            return f"```\n{outputs}\n```" if "\n" in outputs else outputs
        case "error":
            return f"Action failed: '{result.reason or ''}'"
        case "interrupted_by_human":
            return f'The user interrupted the action with the following feedback: "{result.feedback or ""}"'
        case "skipped":
            return f"The action was skipped: '{result.reason or ''}'"
