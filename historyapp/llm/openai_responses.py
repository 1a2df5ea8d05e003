"""OpenAI's Responses API, without server-side state."""

from collections.abc import Iterator
from sys import getsizeof
from typing import Any

from historyapp.core.json_memory import memory_of
from historyapp.core.usage import usage_of
from historyapp.llm.deltas import (
    FinishedDelta,
    FinishReason,
    ModelOutputDelta,
    StartedDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from historyapp.llm.errors import error_from
from historyapp.llm.openai_chat import PRICED_OPTIONS, PRICED_TIERS
from historyapp.llm.provider import Provider
from historyapp.llm.response_limits import Event
from historyapp.llm.sdks import openai_sdk

TITLE = "OpenAI"
_TOOL_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESENT = ("message", *_TOOL_CALLS)
"""Items that the next request repeats. Items of OpenAI's own tools are only in the raw message."""
_INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_STORED_FIELDS = ("id", "object", "created_at", "model", "status", "incomplete_details", "output")
"""The fields of a response that are stored. Other fields repeat the request's instructions and tools."""


class ResponsesReader:
    """Reads ``response.*`` events. The last event of an item or of the response contains it completely."""

    def __init__(self) -> None:
        self.kept = 0
        self._items: dict[int, dict[str, Any]] = {}
        self._tool_calls: dict[int, int] = {}
        self._streamed: dict[int, int] = {}
        """Characters already sent as deltas, by output index."""
        self._has_text = self._has_thought = self._refused = False
        self._response: dict[str, Any] | None = None

    @property
    def is_complete(self) -> bool:
        return self._response is not None

    def read(self, event: Event) -> Iterator[ModelOutputDelta]:
        match event["type"]:
            case "response.created":
                response = event["response"]
                yield StartedDelta(provider="openai_responses", model=response["model"], id=response["id"])
            case "response.output_item.added":
                yield from self._add_item(event["output_index"], event["item"])
            case "response.output_text.delta" | "response.refusal.delta" as kind:
                self._refused = self._refused or kind == "response.refusal.delta"
                yield from self._text(event["output_index"], event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._has_thought = True
                self.kept += getsizeof(event["delta"])
                yield ThoughtDelta(text=event["delta"])
            case "response.reasoning_summary_part.added" if self._has_thought:
                yield ThoughtDelta(text="\n\n")
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield self._arguments(event["output_index"], event["delta"])
            case "response.output_item.done":
                yield from self._finish_item(event["output_index"], event["item"])
            case "response.completed" | "response.incomplete":
                yield from self._complete(event["response"])
            case "response.failed":
                raise error_from(event["response"].get("error") or {}, provider=TITLE)
            case "error":
                raise error_from(event, provider=TITLE)

    def _add_item(self, index: int, item: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        self._streamed[index] = 0
        kind = item["type"]
        if kind in _TOOL_CALLS:
            self._tool_calls[index] = len(self._tool_calls)
            yield ToolCallDelta(index=self._tool_calls[index], id=item["call_id"], name=item["name"])
        elif kind == "message" and self._has_text:
            yield TextDelta(text="\n\n")

    def _text(self, index: int, text: str) -> Iterator[TextDelta]:
        self.kept += getsizeof(text)
        self._streamed[index] += len(text)
        if text:
            self._has_text = True
            yield TextDelta(text=text)

    def _arguments(self, index: int, text: str) -> ToolCallDelta:
        self.kept += getsizeof(text)
        self._streamed[index] += len(text)
        return ToolCallDelta(index=self._tool_calls[index], arguments=text)

    def _finish_item(self, index: int, item: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        """Stores the item, and yields what was not streamed: some servers do not stream everything."""
        if index not in self._streamed:
            yield from self._add_item(index, item)
        self.kept += memory_of(item)
        self._items[index] = item
        streamed = self._streamed[index]
        kind = item["type"]
        if kind == "message":
            parts = item["content"]
            self._refused = self._refused or any("refusal" in part for part in parts)
            text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
            yield from self._text(index, text[streamed:])
        elif kind in _TOOL_CALLS and (missing := (item.get(_TOOL_CALLS[kind]) or "")[streamed:]):
            yield self._arguments(index, missing)

    def _complete(self, response: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        self._response = response
        self.kept += memory_of(response)
        for index, item in enumerate(response.get("output") or ()):
            if index not in self._items:
                yield from self._finish_item(index, item)
        yield from self._reasoning()
        if usage := response.get("usage"):
            yield UsageDelta(usage=usage_of({"usage": usage, "usage_convention": "openai"}), raw=usage)

    def _reasoning(self) -> Iterator[ThoughtDelta]:
        """Reasoning can only be sent back with the item after it. Web search items are not sent back."""
        next_is_resent, blocks = True, list[dict[str, Any]]()
        for _, item in sorted(self._items.items(), reverse=True):
            if item["type"] != "reasoning":
                next_is_resent = item["type"] in _RESENT
            elif next_is_resent:
                blocks.append(item)
        yield from (ThoughtDelta(block=item) for item in reversed(blocks))

    def finish(self) -> FinishedDelta | None:
        response = self._response
        if response is None:
            return None
        message = {name: response[name] for name in _STORED_FIELDS if response.get(name) is not None}
        message["output"] = response.get("output") or [self._items[index] for index in sorted(self._items)]
        provider_reason = (response.get("incomplete_details") or {}).get("reason") or response["status"]
        reason: FinishReason = "refusal" if self._refused else "stop"
        if provider_reason != "completed":
            reason = _INCOMPLETE.get(provider_reason, "other")
        elif self._tool_calls:
            reason = "tool_calls"
        return FinishedDelta(reason=reason, provider_reason=provider_reason, message=message)


PROVIDER = Provider(
    name="openai_responses",
    title=TITLE,
    format="openai_responses",
    sdk=openai_sdk,
    path="/responses",
    context_fields=("tools", "instructions", "input"),
    limit_field="max_output_tokens",
    reserved=("background", "conversation", "previous_response_id"),
    # OpenAI stores nothing, so encrypted reasoning is requested and sent back.
    defaults={"store": False, "include": ["reasoning.encrypted_content"]},
    reader=ResponsesReader,
    priced_options=(*PRICED_OPTIONS, "include", "text", "truncation"),
    priced_tiers=PRICED_TIERS,
    count_path="/responses/input_tokens",
    count_fields=(
        "model", "instructions", "input", "tools", "tool_choice", "reasoning", "text", "truncation",
    ),
)  # fmt: skip
