"""The response of a provider's SDK as entries."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from historyapp.client.provider_streams import complete_response
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResults
from historyapp.wire.contexts import ContextOut

_SENT = ("message", "function_call", "custom_tool_call")
"""Items that the next request has too; what OpenAI's own tools did stays in the raw message."""
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_KEPT = ("id", "object", "created_at", "model", "status", "incomplete_details", "output")
"""Fields of a response that are kept. The others repeat the request, with its instructions and tools."""


def entries_of(response: object, context: ContextOut | None = None) -> list[EntryDraft]:
    """The entries of a response, with its usage and model in their metadata.

    Args:
        response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns it
            or as an object of the same fields; a stream of one of them, or the events of one in a list.
        context: what the model was sent.

    Raises:
        ValueError: when it is something else, or a stream that broke off.
    """
    # Here, because all importers are loaded with them: that doubles the time to import the client.
    from historyapp.core.importers.anthropic_messages import AnthropicReader
    from historyapp.core.importers.chat_messages import ChatMessagesReader
    from historyapp.core.json import listing, mapping

    fields = complete_response(response)
    reason: object
    choice = mapping(next(iter(listing(fields.get("choices"))), None))
    if isinstance(fields.get("output"), list):
        drafts, provider = _response_drafts(fields), "openai_responses"
        details = fields.get("incomplete_details") or {}
        reason = str(details.get("reason") or fields.get("status") or "completed")
    elif message := mapping(choice.get("message")):
        drafts = list(ChatMessagesReader(uuid4().hex).drafts({**message, "role": "assistant"}))
        provider, reason = "openai", choice.get("finish_reason")
    elif isinstance(fields.get("content"), list):
        drafts = list(
            AnthropicReader(uuid4().hex).drafts({"role": "assistant", "content": fields["content"]})
        )
        provider, reason = "anthropic", fields.get("stop_reason")
    else:
        raise ValueError(
            "This is neither a response or chat completion of OpenAI nor a message of Anthropic. Record "
            "other responses with append(ModelOutput(text=…, tool_calls=…))."
        )
    # On the last output only, so that the usage is counted once.
    last = max(index for index, draft in enumerate(drafts) if isinstance(draft.body, ModelOutput))
    metadata = {
        "provider": provider,
        "model": fields.get("model"),
        "source": {
            "id": fields.get("id"),
            "finish_reason": reason,
            **drafts[last].metadata.get("source", {}),
        },
        "usage": fields.get("usage"),
        "usage_convention": "anthropic" if provider == "anthropic" else "openai",
    }
    if context is not None:  # from these the server learns how many tokens the model bills
        metadata |= {
            "estimated_tokens": context.tokens.estimated,
            "counted_tokens": context.tokens.counted,
            "snapshot": str(context.snapshot) if context.snapshot else None,
        }
    present = {name: value for name, value in metadata.items() if value is not None}
    drafts[last] = EntryDraft(drafts[last].body, metadata=present)
    return drafts


def open_calls(drafts: list[EntryDraft]) -> tuple[ToolCall, ...]:
    """The tool calls without a result. Providers run some tools themselves and send the results, too."""
    calls: tuple[ToolCall, ...] = ()
    for draft in drafts:
        match draft.body:
            case ModelOutput():
                calls = draft.body.tool_calls
            case ToolResults():
                answered = {result.tool_call_id for result in draft.body.results}
                calls = tuple(call for call in calls if call.id not in answered)
    return calls


def _response_drafts(fields: Mapping[str, Any]) -> list[EntryDraft]:
    """The response as one output.

    Raises:
        ValueError: when it failed or is not finished.
    """
    from historyapp.core.importers.messages import CallMatcher, SourceCall
    from historyapp.core.importers.records import present_fields
    from historyapp.core.json import listing, mapping, text

    status = text(fields.get("status")) or "completed"
    if status not in ("completed", "incomplete"):
        reason = text(mapping(fields.get("error")).get("message"))
        raise ValueError(f"The response is {status}{f': {reason}' if reason else ''}. Nothing was recorded.")
    items = [item for item in map(mapping, listing(fields["output"])) if item]
    calls, renamed = CallMatcher(uuid4().hex).add_output(
        SourceCall(item.get("call_id"), item.get("name"), item.get(_CALLS[item["type"]]))
        for item in items
        if item.get("type") in _CALLS
    )
    parts = [mapping(part) for item in items for part in listing(item.get("summary"))]
    texts = [
        "".join(
            str(part.get("text") or part.get("refusal") or "")
            for part in item.get("content") or ()
            if isinstance(part, Mapping)
        )
        for item in items
        if item.get("type") == "message"
    ]
    body = ModelOutput(
        thoughts="\n\n".join(filter(None, (text(part.get("text")) for part in parts))) or None,
        text="\n\n".join(filter(None, texts)),
        tool_calls=calls,
        reasoning=_reasoning(items),
        raw_message={name: fields[name] for name in _KEPT if fields.get(name) is not None},
    )
    return [EntryDraft(body, metadata={"source": present_fields(call_ids=renamed)})]


def _reasoning(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning can only be sent again with the item that it led to. OpenAI's own searches are not sent."""
    sent, blocks = True, list[dict[str, Any]]()
    for item in reversed(items):
        if item.get("type") != "reasoning":
            sent = item.get("type") in _SENT
        elif sent:
            blocks.append(item)
    return blocks[::-1]
