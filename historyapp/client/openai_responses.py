"""A response of OpenAI's Responses API as an entry, as the server records those that it asks for itself."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from historyapp.core.entries import EntryDraft, ModelOutput

_SENT = ("message", "function_call", "custom_tool_call")
"""Items that the next request has too; what OpenAI's own tools did stays in the raw message."""
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_KEPT = ("id", "object", "created_at", "model", "status", "incomplete_details", "output")
"""Of a response: the rest repeats the request, instructions and tools included."""


def is_response(fields: Mapping[str, Any]) -> bool:
    """Whether it is one, rather than a chat completion or a message of Anthropic."""
    return isinstance(fields.get("output"), list)


def response_drafts(fields: Mapping[str, Any]) -> list[EntryDraft]:
    """The one output that a response amounts to.

    Raises:
        ValueError: when it failed or is not finished.
    """
    from historyapp.core.importers.messages import Calls, SourceCall
    from historyapp.core.importers.records import known
    from historyapp.core.json import listing, mapping, text

    status = text(fields.get("status")) or "completed"
    if status not in ("completed", "incomplete"):
        why = text(mapping(fields.get("error")).get("message"))
        raise ValueError(f"The response is {status}{f': {why}' if why else ''}. Nothing was recorded.")
    items = [item for item in map(mapping, listing(fields["output"])) if item]
    calls, renamed = Calls(uuid4().hex).begin(
        SourceCall(item.get("call_id"), item.get("name"), item.get(_CALLS[item["type"]]))
        for item in items
        if item.get("type") in _CALLS
    )
    parts = [mapping(part) for item in items for part in listing(item.get("summary"))]
    body = ModelOutput(
        thoughts="\n\n".join(filter(None, (text(part.get("text")) for part in parts))) or None,
        text="\n\n".join(filter(None, map(_said, items))),
        tool_calls=calls,
        reasoning=_reasoning(items),
        raw_message={name: fields[name] for name in _KEPT if fields.get(name) is not None},
    )
    return [EntryDraft(body, metadata={"source": known(call_ids=renamed)})]


def finish_reason(fields: Mapping[str, Any]) -> str:
    """Why it ended, in OpenAI's word."""
    details = fields.get("incomplete_details") or {}
    return str(details.get("reason") or fields.get("status") or "completed")


def _said(item: Mapping[str, Any]) -> str:
    if item.get("type") != "message":
        return ""
    parts = [part for part in item.get("content") or () if isinstance(part, Mapping)]
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def _reasoning(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning can only be sent again together with what it led to; a search of OpenAI's is not sent."""
    sent, blocks = True, list[dict[str, Any]]()
    for item in reversed(items):
        if item.get("type") != "reasoning":
            sent = item.get("type") in _SENT
        elif sent:
            blocks.append(item)
    return blocks[::-1]
