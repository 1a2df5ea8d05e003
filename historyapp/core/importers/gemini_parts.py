"""The parts of Gemini's messages as the log holds them: content, thoughts, calls and what they gave."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import ToolCall, ToolResult
from historyapp.core.importers.messages import SourceCall, tool_result
from historyapp.core.json import listing, mapping, text


def content_of(content: Any) -> Any:
    """A message's content: text, or neutral parts. Calls, results and thoughts are left out.

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
        case {"text": str(words)}:
            return {"type": "text", "text": words}
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind.startswith("image/"):
            return {"type": "image", "media_type": kind, "data": data}
    return part


def thoughts_of(message: Mapping[str, Any]) -> str:
    """The model's thoughts as Markdown: each has a subject and a description."""
    thoughts = []
    for thought in map(mapping, listing(message.get("thoughts"))):
        subject, words = text(thought.get("subject")).strip(), text(thought.get("description")).strip()
        thoughts.append("\n\n".join(filter(None, (subject and f"**{subject}**", words))))
    for part in map(mapping, listing(message.get("content"))):
        if part.get("thought"):
            thoughts.append(text(part.get("text")))
    return "\n\n".join(filter(None, thoughts))


def calls_of(message: Mapping[str, Any]) -> list[SourceCall]:
    """The tool calls of a message, from its records or else from the parts of its content."""
    calls = [mapping(call) for call in listing(message.get("toolCalls"))]
    parts = map(mapping, listing(message.get("content")))
    calls = calls or [mapping(part["functionCall"]) for part in parts if "functionCall" in part]
    return [SourceCall(call.get("id"), call.get("name"), call.get("args")) for call in calls]


def result_of(call: ToolCall, record: Mapping[str, Any]) -> ToolResult | None:
    """What a call gave; None if it has not ended."""
    outputs = _outputs(record)
    match record.get("status"):
        case "success":
            return tool_result(call.id, call.name, outputs)
        case "error":
            return tool_result(call.id, call.name, error=plain_text(outputs))
        case "cancelled":
            return tool_result(call.id, call.name, feedback=plain_text(outputs))
    return None


def _outputs(record: Mapping[str, Any]) -> Any:
    """What the model was given; what a person was shown where the record has nothing else."""
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
        # The text of a response that has no other field, otherwise all of it.
        outputs.append(fields.get("output", fields.get("error", fields)) if len(fields) == 1 else fields)
    if len(outputs) == 1:
        return outputs[0]
    return neutral_content(outputs)
