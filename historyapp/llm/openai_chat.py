"""OpenAI's Chat Completions API, and compatible servers."""

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
from historyapp.llm.provider import Provider
from historyapp.llm.response_limits import Event
from historyapp.llm.sdks import openai_sdk

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}
_TEXTS = ("content", "refusal")
_THOUGHTS = ("reasoning_content", "reasoning")
"""Fields in which compatible servers stream reasoning. OpenAI does not stream it."""
PRICED_OPTIONS = (
    "metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning",
    "safety_identifier", "store", "temperature", "tool_choice", "top_logprobs", "top_p", "user",
)  # fmt: skip
"""Options of OpenAI's APIs that cost only tokens. Source: the request types of the SDK on 2026-11-23."""
PRICED_TIERS = ("auto", "default", "flex")
_BLOCKS = "reasoning_details"
"""The field with reasoning blocks that compatible servers require in the next request."""
_READ_OF_CHOICES = {"index", "delta", "finish_reason"}
"""The fields of a choice that are read. Azure adds six lists and objects of its content filter to each."""


def _drop_unread(event: Event) -> None:
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            for name in choice.keys() - _READ_OF_CHOICES:
                del choice[name]


class ChatStreamReader:
    """Reads ``chat.completion.chunk`` objects. Usage comes in a separate chunk after the finish reason."""

    is_complete = False
    """No event is known to be the last: ``[DONE]`` ends the stream."""

    def __init__(self) -> None:
        self.kept = 0
        self._started = False
        self._reason = ""
        self._parts: dict[str, list[str]] = {}
        self._other: dict[str, Any] = {}
        self._tool_calls: list[dict[str, Any]] = []
        self._indexes: dict[Any, int] = {}

    def read(self, event: Event) -> Iterator[ModelOutputDelta]:
        if not self._started:
            self._started = True
            yield StartedDelta(provider="openai", model=event.get("model") or "", id=event.get("id") or "")
        for choice in event.get("choices") or ():
            if choice.get("index", 0) == 0:
                yield from self._delta(choice.get("delta") or {})
                self._reason = choice.get("finish_reason") or self._reason
        if usage := event.get("usage"):
            parsed = usage_of({"usage": usage, "usage_convention": "openai"})
            yield UsageDelta(usage=parsed, raw=usage)

    def _delta(self, delta: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        for name, value in delta.items():
            if name == "tool_calls":
                for part in value or ():
                    yield self._tool_call(part)
            elif name in _TEXTS + _THOUGHTS and isinstance(value, str):
                self.kept += getsizeof(value)
                self._parts.setdefault(name, []).append(value)
                if value:
                    yield TextDelta(text=value) if name in _TEXTS else ThoughtDelta(text=value)
            elif isinstance(value, list):
                self.kept += memory_of(value)
                self._other.setdefault(name, []).extend(value)
                if name == _BLOCKS:
                    yield from (ThoughtDelta(block=block) for block in value)
            elif name != "role" and value is not None:
                self.kept += memory_of({name: value}) - memory_of({name: self._other.get(name)})
                self._other[name] = value

    def _tool_call(self, part: dict[str, Any]) -> ToolCallDelta:
        index = self._index(part)
        function = part.get("function") or {}
        arguments = function.get("arguments") or ""
        self.kept += memory_of([part.get("id"), function.get("name"), arguments])
        tool_call = self._tool_calls[index]
        tool_call["id"] = tool_call["id"] or part.get("id") or ""
        tool_call["function"]["name"] = tool_call["function"]["name"] or function.get("name") or ""
        tool_call["function"]["arguments"].append(arguments)
        return ToolCallDelta(index=index, id=part.get("id"), name=function.get("name"), arguments=arguments)

    def _index(self, part: dict[str, Any]) -> int:
        """The index of the part's tool call. If the server sends no index, it follows from the id."""
        key = part.get("index")
        if key is None:
            key = part.get("id") or next(reversed(self._indexes), None)
        if key not in self._indexes:
            self._indexes[key] = len(self._tool_calls)
            function: dict[str, Any] = {"name": "", "arguments": []}
            self._tool_calls.append({"id": "", "type": "function", "function": function})
        return self._indexes[key]

    def finish(self) -> FinishedDelta | None:
        if not self._reason:
            return None
        reason = _REASONS.get(self._reason, "other")
        if "refusal" in self._parts:
            reason = "refusal"
        elif self._tool_calls and reason == "stop":
            reason = "tool_calls"  # some compatible servers send "stop", as OpenAI does if a tool was forced
        return FinishedDelta(reason=reason, provider_reason=self._reason, message=self._message())

    def _message(self) -> dict[str, Any]:
        texts = {name: "".join(parts) for name, parts in self._parts.items()}
        message = {"role": "assistant", "content": None, "refusal": None, **texts, **self._other}
        if self._tool_calls:
            for tool_call in self._tool_calls:
                tool_call["function"]["arguments"] = "".join(tool_call["function"]["arguments"])
            message["tool_calls"] = self._tool_calls
            message["content"] = message["content"] or None
        return message


PROVIDER = Provider(
    name="openai",
    title="OpenAI",
    format="openai_chat",
    sdk=openai_sdk,
    path="/chat/completions",
    context_fields=("tools", "messages"),
    limit_field="max_completion_tokens",
    reserved=("n", "stream_options"),
    defaults={"stream_options": {"include_usage": True}},
    reader=ChatStreamReader,
    drop_unread=_drop_unread,
    priced_options=(
        *PRICED_OPTIONS, "frequency_penalty", "logit_bias", "logprobs", "presence_penalty",
        "reasoning_effort", "response_format", "seed", "stop", "top_k", "verbosity",
    ),
    priced_tiers=PRICED_TIERS,
)  # fmt: skip
