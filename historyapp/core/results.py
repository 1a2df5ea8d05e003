"""Results of actions: the three states an agent registers, and how they read as text (SEMANTICS A, B)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from historyapp.core.content import are_parts, plain_text
from historyapp.core.entries import ErrorDetails, ModelOutput, StoredModel, ToolResult
from historyapp.core.json import DUMP_ERRORS, depth_exceeds, dump_json
from historyapp.core.text import Text, fenced

NO_OUTPUT = "(no output)"
_USUAL = {
    "success": ("outputs",),
    "error": ("reason", "error"),
    "skipped": ("reason",),
    "interrupted_by_human": ("feedback",),
}
_LABELS = {"outputs": "Output", "reason": "Reason", "error": "Error", "feedback": "Feedback"}
_DEEPEST = 100
"""Levels of an exception's argument that is kept as it is: well within what the API takes."""


class ActionSuccess(StoredModel):
    status: Literal["success"] = "success"
    outputs: Any = None


class ActionError(StoredModel):
    status: Literal["error"] = "error"
    reason: Text
    error: ErrorDetails | None = None


class ActionInterrupted(StoredModel):
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
    except DUMP_ERRORS:
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


def further_parts(result: ToolResult) -> list[tuple[str, str]]:
    """What a result holds beside the fields that its status usually has, as labels and texts."""
    usual = _USUAL[result.status]
    said = {_part_text(result, name) for name in usual}
    parts = []
    for name in ("outputs", "reason", "error", "feedback"):
        text = _part_text(result, name)
        if name not in usual and text.strip() and text not in said:
            said.add(text)
            parts.append((_LABELS[name], text))
    return parts


def _part_text(result: ToolResult, name: str) -> str:
    if name == "error":
        return result.error.repr if result.error else ""
    return plain_text(getattr(result, name))


def returned_text(result: ToolResult) -> str:
    """What a tool returned, in words; never empty."""
    match result.status:
        case "success":
            said = plain_text(result.outputs)
        case "error":
            error = plain_text(result.error.model_dump()) if result.error else ""
            said = "\n\n".join(part for part in (result.reason, error) if part)
        case _:
            said = result_text(result)
    more = [f"{label}: {text}" for label, text in further_parts(result)]
    said = "\n\n".join(filter(str.strip, (said, *more)))
    return said or NO_OUTPUT


def returned_content(result: ToolResult) -> Any:
    """As :func:`returned_text`, with the images and other parts of a result that has any."""
    if not are_parts(result.outputs):
        return returned_text(result)
    words = returned_text(result.model_copy(update={"outputs": None}))
    said = [] if words == NO_OUTPUT else [{"type": "text", "text": words}]
    return [*result.outputs, *said] if result.status == "success" else [*said, *result.outputs]


def reported_text(result: ToolResult, output: ModelOutput | None = None) -> str:
    """A result as said to the model: as it came where the model acted by text of its own, else named."""
    said = returned_text(result)
    if result.status == "interrupted_by_human" or (output and output.raw_message):
        return said
    name = result.tool_name or (output.use_tool.name if output and output.use_tool else "") or "The tool"
    if result.status != "success":
        return f"{name} raised an error: {fenced(said)}"
    shown = fenced(said) if "\n" in said else f"`{said}`"
    return f"{name} returned: {shown}"


def as_text(result: ToolResult, text: str) -> ToolResult:
    """The result with this text in place of everything that it holds."""
    bare = ToolResult(tool_call_id=result.tool_call_id, tool_name=result.tool_name, status=result.status)
    if result.status == "success":
        return bare.model_copy(update={"outputs": text})
    return bare.model_copy(update={"status": "error", "reason": text})
