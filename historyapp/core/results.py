"""Results as text, for people and models."""

from typing import Any

from historyapp.core.content import are_parts, plain_text
from historyapp.core.entries import ModelOutput, ToolResult
from historyapp.core.text import fenced

NO_OUTPUT = "(no output)"
_USUAL = {
    "success": ("outputs",),
    "error": ("reason", "error"),
    "skipped": ("reason",),
    "interrupted_by_human": ("feedback",),
}
_LABELS = {"outputs": "Output", "reason": "Reason", "error": "Error", "feedback": "Feedback"}


def result_text(result: ToolResult) -> str:
    """A result in one text: its outputs (fenced if they have several lines), or why there are none."""
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
    """The fields of a result that its status does not usually have, as labels and texts."""
    if result.status == "success" and not (result.reason or result.error or result.feedback):
        return []
    usual_fields = _USUAL[result.status]
    texts = {
        "outputs": plain_text(result.outputs),
        "reason": result.reason or "",
        "error": result.error.repr if result.error else "",
        "feedback": result.feedback or "",
    }
    usual_texts = {texts[name] for name in usual_fields}
    parts = []
    for name, text in texts.items():
        if name not in usual_fields and text.strip() and text not in usual_texts:
            usual_texts.add(text)
            parts.append((_LABELS[name], text))
    return parts


def without_exception(result: ToolResult) -> tuple[ToolResult, list[tuple[str, str]]]:
    """A result for people: without the exception of a failure that has a reason, and this exception as its
    name and text if it says something else than the reason."""
    error = result.error
    if result.status != "error" or not error or not result.reason:
        return result, []
    named = [(error.exception_type, error.repr)] if error.repr != result.reason else []
    return result.model_copy(update={"error": None}), named


def returned_text(result: ToolResult) -> str:
    """The result of a tool as text; never empty."""
    match result.status:
        case "success":
            returned = plain_text(result.outputs)
            if not (result.reason or result.error or result.feedback):
                return returned if returned.strip() else NO_OUTPUT  # most results; an append waits for this
        case "error" if result.outputs is None and not (result.error or result.feedback):
            reason = result.reason or ""
            return reason if reason.strip() else NO_OUTPUT
        case "error":
            error = plain_text(result.error.model_dump()) if result.error else ""
            returned = "\n\n".join(part for part in (result.reason, error) if part)
        case _:
            returned = result_text(result)
    more = [f"{label}: {text}" for label, text in further_parts(result)]
    returned = "\n\n".join(filter(str.strip, (returned, *more)))
    return returned or NO_OUTPUT


def returned_content(result: ToolResult) -> Any:
    """Like :func:`returned_text`, but with images and other parts, if the result has any."""
    if not are_parts(result.outputs):
        return returned_text(result)
    text = returned_text(result.model_copy(update={"outputs": None}))
    parts = [] if text == NO_OUTPUT else [{"type": "text", "text": text}]
    return [*result.outputs, *parts] if result.status == "success" else [*parts, *result.outputs]


def reported_text(result: ToolResult, output: ModelOutput | None = None) -> str:
    """A result as a message to the model: named, except for an action that the model wrote as text."""
    text = returned_text(result)
    if result.status == "interrupted_by_human" or (output and output.raw_message):
        return text
    name = result.tool_name or (output.use_tool.name if output and output.use_tool else "") or "The tool"
    if result.status != "success":
        return f"{name} raised an error: {fenced(text)}"
    shown = fenced(text) if "\n" in text else f"`{text}`"
    return f"{name} returned: {shown}"


def with_only_text(result: ToolResult, text: str) -> ToolResult:
    """The result with this text as its only content: itself if it has no other."""
    if _has_only(result, text):
        return result
    id, name = result.tool_call_id, result.tool_name
    if result.status == "success":
        return ToolResult(tool_call_id=id, tool_name=name, status="success", outputs=text)
    return ToolResult(tool_call_id=id, tool_name=name, status="error", reason=text)


def _has_only(result: ToolResult, text: str) -> bool:
    if result.error or result.feedback:
        return False
    if result.status == "success":
        return result.outputs is text and not result.reason
    return result.status == "error" and result.reason is text and result.outputs is None
