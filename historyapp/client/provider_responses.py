"""What a provider's SDK returned, as entries."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from historyapp.client.openai_responses import finish_reason, is_response, response_drafts
from historyapp.client.provider_streams import whole_answer
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResults
from historyapp.wire.contexts import ContextOut


def entries_of(response: object, context: ContextOut | None = None) -> list[EntryDraft]:
    """The entries of an answer, with its usage and model in their metadata.

    Args:
        response: a response or a chat completion of OpenAI or a message of Anthropic, as the SDK returns it
            or as an object of the same fields; a stream of one of them, or the events of one in a list.
        context: what it answers.

    Raises:
        ValueError: when it is nothing of that, or a stream that broke off.
    """
    # Here, because all importers are loaded with them: that doubles the time to import the client.
    from historyapp.core.importers.anthropic_messages import AnthropicReader
    from historyapp.core.importers.chat_messages import ChatReader
    from historyapp.core.json import listing, mapping

    fields = whole_answer(response)
    if is_response(fields):
        facts = _facts(fields, "openai_responses", finish_reason(fields))
        return _told(response_drafts(fields), facts, context)
    choice = mapping(next(iter(listing(fields.get("choices"))), None))
    if message := mapping(choice.get("message")):
        drafts = list(ChatReader(uuid4().hex).drafts({**message, "role": "assistant"}))
        facts = _facts(fields, "openai", choice.get("finish_reason"))
        return _told(drafts, facts, context)
    if isinstance(fields.get("content"), list):
        drafts = list(
            AnthropicReader(uuid4().hex).drafts({"role": "assistant", "content": fields["content"]})
        )
        facts = _facts(fields, "anthropic", fields.get("stop_reason"))
        return _told(drafts, facts, context)
    raise ValueError(
        "This is neither a response or chat completion of OpenAI nor a message of Anthropic. Record other "
        "answers with append(ModelOutput(text=…, tool_calls=…))."
    )


def open_calls(drafts: list[EntryDraft]) -> tuple[ToolCall, ...]:
    """The calls that wait for a result. Providers run some tools themselves and send the results along."""
    calls: tuple[ToolCall, ...] = ()
    for draft in drafts:
        match draft.body:
            case ModelOutput():
                calls = draft.body.tool_calls
            case ToolResults():
                answered = {result.tool_call_id for result in draft.body.results}
                calls = tuple(call for call in calls if call.id not in answered)
    return calls


def _facts(response: Mapping[str, Any], provider: str, reason: object) -> dict[str, Any]:
    return {
        "provider": provider,
        "model": response.get("model"),
        "source": {"id": response.get("id"), "finish_reason": reason},
        "usage": response.get("usage"),
        "usage_convention": "anthropic" if provider == "anthropic" else "openai",
    }


def _told(drafts: list[EntryDraft], facts: dict[str, Any], context: ContextOut | None) -> list[EntryDraft]:
    """With what is known of the whole answer at its last output, so that its usage is counted once."""
    last = max(place for place, draft in enumerate(drafts) if isinstance(draft.body, ModelOutput))
    facts["source"] |= drafts[last].metadata.get("source", {})
    known = {name: fact for name, fact in facts.items() if fact is not None}
    drafts[last] = EntryDraft(drafts[last].body, metadata={**known, **_asked(context)})
    return drafts


def _asked(context: ContextOut | None) -> dict[str, Any]:
    """What the server wants to know of the context, to learn from what was billed."""
    if context is None:
        return {}
    counts = {"estimated_tokens": context.tokens.estimated, "counted_tokens": context.tokens.counted}
    known = {name: count for name, count in counts.items() if count is not None}
    return {**known, "snapshot": str(context.snapshot)} if context.snapshot else known
