"""OpenAI chat completions, and the many servers that speak them."""

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
from historyapp.llm.provider import Provider
from historyapp.llm.request import ModelRequest, request_body
from historyapp.llm.transport import Event

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}
_SPOKEN = ("content", "refusal")
_THOUGHT = ("reasoning_content", "reasoning")
"""Not OpenAI's own: how compatible servers stream what a model thinks …"""
_BLOCKS = "reasoning_details"
"""… and what of it they want back."""


def body(request: ModelRequest, model: str) -> dict[str, Any]:
    """The request. One choice only: an answer is one output."""
    written = request_body(
        request,
        model,
        context=("tools", "messages"),
        limit="max_completion_tokens",
        reserved=("n", "stream_options"),
    )
    written["stream_options"] = {"include_usage": True}
    return written


class ChatAnswer:
    """Reads ``chat.completion.chunk`` objects. Usage follows the finish reason, in a chunk of its own."""

    def __init__(self) -> None:
        self._started = False
        self._reason = ""
        self._parts: dict[str, list[str]] = {}
        self._other: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}

    def take(self, event: Event) -> Iterator[ModelOutputDelta]:
        if not self._started:
            self._started = True
            yield Started(provider="openai", model=event.get("model") or "", id=event.get("id") or "")
        for choice in event.get("choices") or ():
            if choice.get("index", 0) == 0:
                yield from self._delta(choice.get("delta") or {})
                self._reason = choice.get("finish_reason") or self._reason
        if usage := event.get("usage"):
            known = usage_of({"usage": usage, "usage_convention": "openai"})
            yield UsageDelta(usage=known, raw=usage)

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        for name, value in delta.items():
            if name == "tool_calls":
                for part in value or ():
                    yield self._call(part)
            elif name in _SPOKEN + _THOUGHT and isinstance(value, str):
                self._parts.setdefault(name, []).append(value)
                if value:
                    yield TextDelta(text=value) if name in _SPOKEN else ThoughtDelta(text=value)
            elif isinstance(value, list):
                self._other.setdefault(name, []).extend(value)
                if name == _BLOCKS:
                    yield from (ThoughtDelta(block=block) for block in value)
            elif name != "role" and value is not None:
                self._other[name] = value

    def _call(self, part: dict[str, Any]) -> ToolCallDelta:
        index = self._place(part)
        function = part.get("function") or {}
        arguments = function.get("arguments") or ""
        call = self._calls[index]
        call["id"] = call["id"] or part.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        call["function"]["arguments"].append(arguments)
        return ToolCallDelta(index=index, id=part.get("id"), name=function.get("name"), arguments=arguments)

    def _place(self, part: dict[str, Any]) -> int:
        """Which call a piece belongs to: by its index, or where a server gives none by its id."""
        key = part.get("index")
        if key is None:
            key = part.get("id") or next(reversed(self._places), None)
        if key not in self._places:
            self._places[key] = len(self._calls)
            function: dict[str, Any] = {"name": "", "arguments": []}
            self._calls.append({"id": "", "type": "function", "function": function})
        return self._places[key]

    def end(self) -> Finished | None:
        if not self._reason:
            return None
        reason = _REASONS.get(self._reason, "other")
        if "refusal" in self._parts:
            reason = "refusal"
        elif self._calls and reason == "stop":
            reason = "tool_calls"  # so some compatible servers, and OpenAI when a tool was forced
        return Finished(reason=reason, provider_reason=self._reason, message=self._message())

    def _message(self) -> dict[str, Any]:
        spoken = {name: "".join(parts) for name, parts in self._parts.items()}
        message = {"role": "assistant", "content": None, "refusal": None, **spoken, **self._other}
        if self._calls:
            message["tool_calls"] = [_joined(call) for call in self._calls]
            message["content"] = message["content"] or None
        return message


def _joined(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": "".join(function["arguments"])}}


PROVIDER = Provider(
    name="openai",
    title="OpenAI",
    format="openai_chat",
    sdk=openai_sdk,
    path="/chat/completions",
    body=body,
    answer=ChatAnswer,
)
