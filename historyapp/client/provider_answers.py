"""What a provider's SDK returned, as entries."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResults
from historyapp.core.importers.anthropic_messages import MessageReader
from historyapp.core.importers.chat_messages import ChatReader
from historyapp.core.importers.json_document import listing, mapping


def entries_of(response: object) -> list[EntryDraft]:
    """The entries of an answer, with its usage and model in their metadata.

    Args:
        response: a chat completion of OpenAI or a message of Anthropic, as the SDK returns it or as an object
            of the same fields.

    Raises:
        ValueError: when it is neither.
    """
    fields = response if isinstance(response, Mapping) else _dumped(response)
    choice = mapping(next(iter(listing(fields.get("choices"))), None))
    if message := mapping(choice.get("message")):
        drafts = list(ChatReader(uuid4().hex).drafts({**message, "role": "assistant"}))
        return _with_facts(drafts, fields, "openai", choice.get("finish_reason"))
    if isinstance(fields.get("content"), list):
        drafts = list(MessageReader(uuid4().hex).drafts({"role": "assistant", "content": fields["content"]}))
        return _with_facts(drafts, fields, "anthropic", fields.get("stop_reason"))
    raise ValueError("This is neither a chat completion of OpenAI nor a message of Anthropic.")


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


def _dumped(response: object) -> Mapping[str, Any]:
    dump = getattr(response, "model_dump", None)
    if dump is None:
        raise ValueError(f"A {type(response).__name__} is no answer of a provider's SDK.")
    found: Mapping[str, Any] = dump(mode="json", exclude_none=True)
    return found


def _with_facts(
    drafts: list[EntryDraft], response: Mapping[str, Any], provider: str, reason: object
) -> list[EntryDraft]:
    """The usage belongs to the whole answer, and is counted with its last output."""
    facts = {
        "provider": provider,
        "model": response.get("model"),
        "source": {"id": response.get("id"), "finish_reason": reason},
        "usage": response.get("usage"),
        "usage_convention": provider,
    }
    last = max(place for place, draft in enumerate(drafts) if isinstance(draft.body, ModelOutput))
    told = {name: fact for name, fact in facts.items() if fact is not None}
    drafts[last] = EntryDraft(drafts[last].body, metadata={**told, **_renamed(drafts[last])})
    return drafts


def _renamed(draft: EntryDraft) -> dict[str, Any]:
    """Calls that came without an id of their own were given one; what they had is kept."""
    call_ids = draft.metadata.get("source", {}).get("call_ids")
    return {"call_ids": call_ids} if call_ids else {}
