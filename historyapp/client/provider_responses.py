"""The response of a provider's SDK as entries."""

from uuid import uuid4

from historyapp.client.openai_responses import finish_reason, is_response, response_drafts
from historyapp.client.provider_streams import whole_answer
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResults
from historyapp.wire.contexts import ContextOut


def entries_of(response: object, context: ContextOut | None = None) -> list[EntryDraft]:
    """The entries of a response, with its usage and model in their metadata.

    Args:
        response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns it
            or as an object of the same fields; a stream of one of them, or the events of one in a list.
        context: what the model was sent.

    Raises:
        ValueError: when it is none of these, or a stream that broke off.
    """
    # Here, because all importers are loaded with them: that doubles the time to import the client.
    from historyapp.core.importers.anthropic_messages import AnthropicReader
    from historyapp.core.importers.chat_messages import ChatMessagesReader
    from historyapp.core.json import listing, mapping

    fields = whole_answer(response)
    reason: object
    choice = mapping(next(iter(listing(fields.get("choices"))), None))
    if is_response(fields):
        drafts, provider, reason = response_drafts(fields), "openai_responses", finish_reason(fields)
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
    last = max(place for place, draft in enumerate(drafts) if isinstance(draft.body, ModelOutput))
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
    known = {name: value for name, value in metadata.items() if value is not None}
    drafts[last] = EntryDraft(drafts[last].body, metadata=known)
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
