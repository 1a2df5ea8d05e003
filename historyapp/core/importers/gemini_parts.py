"""The parts of Gemini's messages: content, thoughts, tool calls and results."""

from collections.abc import Mapping, Sequence
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import ToolCall, ToolResult
from historyapp.core.importers.messages import SourceCall, tool_result
from historyapp.core.json import listing, mapping, text
from historyapp.core.recorded_diffs import UNCHANGED, diff_fields


def content_of(content: Any) -> Any:
    """A message's content as text or provider-neutral parts, without tool calls, results and thoughts.

    >>> content_of([{"text": "Look at this."}, {"functionCall": {"name": "read_file"}}])
    'Look at this.'
    """
    if not isinstance(content, list):
        return neutral_content(content)
    parts = []
    for part in content:
        fields = mapping(part)
        if not ("functionCall" in fields or "functionResponse" in fields or fields.get("thought")):
            parts.append(_part(part))
    return neutral_content(parts)


def _part(part: Any) -> Any:
    match part:
        case {"text": str(content)}:
            return {"type": "text", "text": content}
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind.startswith("image/"):
            return {"type": "image", "media_type": kind, "data": data}
    return part


def thoughts_of(message: Mapping[str, Any]) -> str:
    """The model's thoughts as Markdown, each with a subject and a description."""
    thoughts = []
    for thought in map(mapping, listing(message.get("thoughts"))):
        subject, description = text(thought.get("subject")).strip(), text(thought.get("description")).strip()
        thoughts.append("\n\n".join(filter(None, (subject and f"**{subject}**", description))))
    for part in map(mapping, listing(message.get("content"))):
        if part.get("thought"):
            thoughts.append(text(part.get("text")))
    return "\n\n".join(filter(None, thoughts))


def calls_of(message: Mapping[str, Any]) -> list[SourceCall]:
    """The tool calls of a message, from ``toolCalls`` or else from its content."""
    calls = [mapping(tool_call) for tool_call in listing(message.get("toolCalls"))]
    parts = map(mapping, listing(message.get("content")))
    calls = calls or [mapping(part["functionCall"]) for part in parts if "functionCall" in part]
    return [
        SourceCall(tool_call.get("id"), tool_call.get("name"), tool_call.get("args")) for tool_call in calls
    ]


def result_of(tool_call: ToolCall, record: Mapping[str, Any]) -> ToolResult | None:
    """The result of a tool call, or None if it has not ended."""
    outputs = _outputs(record)
    match record.get("status"):
        case "success":
            return tool_result(tool_call.id, tool_call.name, outputs)
        case "error":
            return tool_result(tool_call.id, tool_call.name, error=plain_text(outputs))
        case "cancelled":
            return tool_result(tool_call.id, tool_call.name, feedback=plain_text(outputs))
    return None


def diffs_of(results: Sequence[tuple[ToolResult, Mapping[str, Any]]]) -> dict[str, Any]:
    """What successful edits changed, by the ids of their calls: see :mod:`historyapp.core.recorded_diffs`.

    Args:
        results: with the records of their calls.
    """
    diffs = {}
    for result, record in results:
        shown = mapping(record.get("resultDisplay"))
        if result.status == "success" and result.tool_call_id and shown.get("isNewFile") is False:
            old, new = (shown.get(name) for name in ("originalContent", "newContent"))
            is_unchanged = isinstance(old, str) and old == new
            fields = UNCHANGED if is_unchanged else diff_fields(text(shown.get("fileDiff")))
            diffs[result.tool_call_id] = fields
    return {id: fields for id, fields in diffs.items() if fields}


def _outputs(record: Mapping[str, Any]) -> Any:
    """The outputs for the model, or the text shown to the user if there are none."""
    result = record.get("result")
    if not isinstance(result, list):
        return text(record.get("resultDisplay")) if result is None else result
    outputs: list[Any] = []
    for part in result:
        response = mapping(part).get("functionResponse")
        if response is None:
            outputs.append(_part(part))
            continue
        fields = dict(mapping(mapping(response).get("response")))
        # A response with other fields than its text is kept whole.
        outputs.append(fields.get("output", fields.get("error", fields)) if len(fields) == 1 else fields)
    if len(outputs) == 1:
        return outputs[0]
    return neutral_content(outputs)
