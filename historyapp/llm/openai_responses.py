"""OpenAI's Responses API, used without its server-side state: we keep the history."""

from collections.abc import Iterator
from typing import Any

from historyapp.core.usage import usage_of
from historyapp.llm.clients import openai_sdk
from historyapp.llm.deltas import (
    Finished,
    FinishReason,
    ModelOutputDelta,
    Started,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from historyapp.llm.errors import error_said
from historyapp.llm.provider import Provider
from historyapp.llm.request import ModelRequest, request_body
from historyapp.llm.transport import Event

TITLE = "OpenAI"
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_SENT = ("message", *_CALLS)
"""Items that the next request has too; what OpenAI's own tools did stays in the raw message."""
_CUT: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_KEPT = ("id", "object", "created_at", "model", "status", "incomplete_details", "output")
"""Of a response: the rest repeats the request, instructions and tools included."""


def body(request: ModelRequest, model: str) -> dict[str, Any]:
    """The request. Nothing is stored there, so reasoning comes back encrypted, to be sent again."""
    written = request_body(
        request,
        model,
        context=("tools", "instructions", "input"),
        limit="max_output_tokens",
        reserved=("background", "conversation", "previous_response_id"),
    )
    return {"store": False, "include": ["reasoning.encrypted_content"], **written}


class ResponsesAnswer:
    """Reads ``response.*`` events. An item's last event holds all of it; so does the response's."""

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, int] = {}
        self._told: dict[int, int] = {}
        """Characters given out, by output index."""
        self._said = self._thought = self._refused = False
        self._response: dict[str, Any] | None = None

    def take(self, event: Event) -> Iterator[ModelOutputDelta]:
        match event["type"]:
            case "response.created":
                response = event["response"]
                yield Started(provider="openai_responses", model=response["model"], id=response["id"])
            case "response.output_item.added":
                yield from self._added(event["output_index"], event["item"])
            case "response.output_text.delta" | "response.refusal.delta" as kind:
                self._refused = self._refused or kind == "response.refusal.delta"
                yield from self._text(event["output_index"], event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._thought = True
                yield ThoughtDelta(text=event["delta"])
            case "response.reasoning_summary_part.added" if self._thought:
                yield ThoughtDelta(text="\n\n")
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield self._arguments(event["output_index"], event["delta"])
            case "response.output_item.done":
                yield from self._done(event["output_index"], event["item"])
            case "response.completed" | "response.incomplete":
                yield from self._ended(event["response"])
            case "response.failed":
                raise error_said(event["response"].get("error") or {}, provider=TITLE)
            case "error":
                raise error_said(event, provider=TITLE)

    def _added(self, index: int, item: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        self._told[index] = 0
        kind = item["type"]
        if kind in _CALLS:
            self._calls[index] = len(self._calls)
            yield ToolCallDelta(index=self._calls[index], id=item["call_id"], name=item["name"])
        elif kind == "message" and self._said:
            yield TextDelta(text="\n\n")

    def _text(self, index: int, text: str) -> Iterator[TextDelta]:
        self._told[index] += len(text)
        if text:
            self._said = True
            yield TextDelta(text=text)

    def _arguments(self, index: int, text: str) -> ToolCallDelta:
        self._told[index] += len(text)
        return ToolCallDelta(index=self._calls[index], arguments=text)

    def _done(self, index: int, item: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        """Keeps the item, and gives out what no delta has said: not every server streams everything."""
        if index not in self._told:
            yield from self._added(index, item)
        self._items[index] = item
        told = self._told[index]
        kind = item["type"]
        if kind == "message":
            parts = item["content"]
            self._refused = self._refused or any("refusal" in part for part in parts)
            whole = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
            yield from self._text(index, whole[told:])
        elif kind in _CALLS and (rest := (item.get(_CALLS[kind]) or "")[told:]):
            yield self._arguments(index, rest)

    def _ended(self, response: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        self._response = response
        for index, item in enumerate(response.get("output") or ()):
            if index not in self._items:
                yield from self._done(index, item)
        yield from self._reasoning()
        if usage := response.get("usage"):
            yield UsageDelta(usage=usage_of({"usage": usage, "usage_convention": "openai"}), raw=usage)

    def _reasoning(self) -> Iterator[ThoughtDelta]:
        """Reasoning can only be sent again together with what it led to; a search of OpenAI's is not sent."""
        sent, blocks = True, list[dict[str, Any]]()
        for _, item in sorted(self._items.items(), reverse=True):
            if item["type"] != "reasoning":
                sent = item["type"] in _SENT
            elif sent:
                blocks.append(item)
        yield from (ThoughtDelta(block=item) for item in reversed(blocks))

    def end(self) -> Finished | None:
        response = self._response
        if response is None:
            return None
        message = {name: response[name] for name in _KEPT if response.get(name) is not None}
        message["output"] = response.get("output") or [self._items[index] for index in sorted(self._items)]
        why = (response.get("incomplete_details") or {}).get("reason") or response["status"]
        return Finished(reason=self._reason(why), provider_reason=why, message=message)

    def _reason(self, why: str) -> FinishReason:
        if why != "completed":
            return _CUT.get(why, "other")
        return "tool_calls" if self._calls else "refusal" if self._refused else "stop"


PROVIDER = Provider(
    name="openai_responses",
    title=TITLE,
    format="openai_responses",
    sdk=openai_sdk,
    path="/responses",
    body=body,
    answer=ResponsesAnswer,
    count_path="/responses/input_tokens",
    count_fields=(
        "model",
        "instructions",
        "input",
        "tools",
        "tool_choice",
        "reasoning",
        "text",
        "truncation",
    ),
)
