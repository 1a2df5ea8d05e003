"""The response of a provider's SDK as entries."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from historyapp.client.provider_streams import complete_response
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResults
from historyapp.wire.contexts import ContextOut

_RESENT = ("message", "function_call", "custom_tool_call")
"""Items that the next request repeats. Items of OpenAI's own tools are only in the raw message."""
_TOOL_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_STORED_FIELDS = ("id", "object", "created_at", "model", "status", "incomplete_details", "output")
"""The fields of a response that are stored. Other fields repeat the request's instructions and tools."""


def entries_of(response: object, context: ContextOut | None = None) -> list[EntryDraft]:
    """The entries of a response, with its usage and model in their metadata.

    Args:
        response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns it
            or as an object of the same fields; a stream of one of them, or the events of a stream in a list.
        context: the context that was sent to the model.

    Raises:
        ValueError: when the response is of another kind, or a stream that ended early.
    """
    # Imported here, because these modules load all importers, which doubles the time to import the client.
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
    last_output = max(index for index, draft in enumerate(drafts) if isinstance(draft.body, ModelOutput))
    metadata = {
        "provider": provider,
        "model": fields.get("model"),
        "source": {
            "id": fields.get("id"),
            "finish_reason": reason,
            **drafts[last_output].metadata.get("source", {}),
        },
        "usage": fields.get("usage"),
        "usage_convention": "anthropic" if provider == "anthropic" else "openai",
    }
    if context is not None:  # from these fields the server learns how many tokens the model bills
        metadata |= {
            "estimated_tokens": context.tokens.estimated,
            "counted_tokens": context.tokens.counted,
            "snapshot": str(context.snapshot) if context.snapshot else None,
        }
    present = {name: value for name, value in metadata.items() if value is not None}
    drafts[last_output] = EntryDraft(drafts[last_output].body, metadata=present)
    return drafts


def open_tool_calls(drafts: list[EntryDraft]) -> tuple[ToolCall, ...]:
    """The tool calls without a result. Providers run some tools themselves and also send the results."""
    tool_calls: tuple[ToolCall, ...] = ()
    for draft in drafts:
        match draft.body:
            case ModelOutput():
                tool_calls = draft.body.tool_calls
            case ToolResults():
                with_result = {result.tool_call_id for result in draft.body.results}
                tool_calls = tuple(tool_call for tool_call in tool_calls if tool_call.id not in with_result)
    return tool_calls


def _response_drafts(fields: Mapping[str, Any]) -> list[EntryDraft]:
    """A response of the Responses API as one output.

    Raises:
        ValueError: when the response failed or is not finished.
    """
    from historyapp.core.importers.messages import CallMatcher, SourceCall
    from historyapp.core.importers.records import present_fields
    from historyapp.core.json import listing, mapping, text

    status = text(fields.get("status")) or "completed"
    if status not in ("completed", "incomplete"):
        reason = text(mapping(fields.get("error")).get("message"))
        raise ValueError(f"The response is {status}{f': {reason}' if reason else ''}. Nothing was recorded.")
    items = [item for item in map(mapping, listing(fields["output"])) if item]
    tool_calls, renamed = CallMatcher(uuid4().hex).add_output(
        SourceCall(item.get("call_id"), item.get("name"), item.get(_TOOL_CALLS[item["type"]]))
        for item in items
        if item.get("type") in _TOOL_CALLS
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
        tool_calls=tool_calls,
        reasoning=_reasoning(items),
        raw_message={name: fields[name] for name in _STORED_FIELDS if fields.get(name) is not None},
    )
    return [EntryDraft(body, metadata={"source": present_fields(call_ids=renamed)})]


def _reasoning(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning can only be sent back with the item after it. Web search items are not sent back."""
    next_is_resent, blocks = True, list[dict[str, Any]]()
    for item in reversed(items):
        if item.get("type") != "reasoning":
            next_is_resent = item.get("type") in _RESENT
        elif next_is_resent:
            blocks.append(item)
    return blocks[::-1]
