"""Anthropic's Messages API."""

from collections.abc import Iterator
from typing import Any

from historyapp.core.content import arguments_of
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.json import dump_json
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
from historyapp.llm.sdks import anthropic_sdk

DEFAULT_MAX_TOKENS = 8192
"""The default of ``max_tokens``, which Anthropic requires. Every current model supports this many."""

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "paused",
}
_TOOL_BLOCKS = ("tool_use", "server_tool_use")
_THINKING_BLOCKS = ("thinking", "redacted_thinking")


class MessagesStreamReader:
    """Combines ``message_*`` and ``content_block_*`` events like the SDK's accumulator."""

    def __init__(self) -> None:
        self.kept = 0
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._parts: dict[int, list[str]] = {}
        """Texts of the blocks that have not ended."""
        self._inputs: dict[int, str] = {}
        """The JSON of the blocks that have ended."""
        self._tool_calls: dict[int, int] = {}
        self._last_text = self._last_thought = -1
        self.is_complete = False

    def read(self, event: Event) -> Iterator[ModelOutputDelta]:
        if event["type"] != "content_block_delta":
            self.kept += memory_of(event)
        match event["type"]:
            case "message_start":
                self._message = message = {**event["message"]}
                yield StartedDelta(provider="anthropic", model=message["model"], id=message["id"])
                yield from self._usage(message.get("usage") or {})
            case "content_block_start":
                yield from self._start_block(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._add_delta(event["index"], event["delta"])
            case "content_block_stop":
                yield from self._stop_block(event["index"])
            case "message_delta":
                self._message |= event["delta"]
                yield from self._usage(event.get("usage") or {})
            case "message_stop":
                self.is_complete = True

    def _usage(self, counts: dict[str, Any]) -> Iterator[UsageDelta]:
        """Updates the usage. Counts are cumulative; a count that is missing or null has not changed."""
        reported = {name: count for name, count in counts.items() if count is not None}
        usage = {**(self._message.get("usage") or {}), **reported}
        self._message["usage"] = usage
        if reported:
            yield UsageDelta(usage=usage_of({"usage": usage, "usage_convention": "anthropic"}), raw=usage)

    def _start_block(self, index: int, block: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        self._blocks[index] = {**block}
        self._parts[index] = []
        match block["type"]:
            case "text":
                # Citations split a text into adjacent blocks. Any other block starts a new paragraph.
                if self._last_text >= 0 and self._last_text != index - 1:
                    yield TextDelta(text="\n\n")
                self._last_text = index
                yield from self._add_text(index, block.get("text") or "", TextDelta)
            case "thinking":
                if self._last_thought >= 0:
                    yield ThoughtDelta(text="\n\n")
                self._last_thought = index
                yield from self._add_text(index, block.get("thinking") or "", ThoughtDelta)
            case "tool_use":
                self._tool_calls[index] = len(self._tool_calls)
                yield ToolCallDelta(index=self._tool_calls[index], id=block["id"], name=block["name"])

    def _add_delta(self, index: int, delta: dict[str, Any]) -> Iterator[ModelOutputDelta]:
        block = self._blocks[index]
        self.kept += sum(memory_of(value) for name, value in delta.items() if name != "type")
        match delta["type"]:
            case "text_delta":
                yield from self._add_text(index, delta["text"], TextDelta)
            case "thinking_delta":
                yield from self._add_text(index, delta["thinking"], ThoughtDelta)
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = block.get("citations") or []
                block["citations"].append(delta["citation"])
            case "input_json_delta":
                self._parts[index].append(delta["partial_json"])
                if index in self._tool_calls and delta["partial_json"]:
                    yield ToolCallDelta(index=self._tool_calls[index], arguments=delta["partial_json"])

    def _add_text(self, index: int, text: str, kind: type[TextDelta | ThoughtDelta]) -> Iterator[Any]:
        self._parts[index].append(text)
        if text:
            yield kind(text=text)

    def _stop_block(self, index: int) -> Iterator[ModelOutputDelta]:
        """Ends a block once: its content could be sent again and again with another few bytes each time."""
        block = self._blocks[index]
        if index not in self._parts:
            return
        text, kind = "".join(self._parts.pop(index)), block["type"]
        if kind == "text":
            block["text"] = text
        elif kind == "thinking":
            block["thinking"] = text
        elif text:
            self._inputs[index] = text
        elif index in self._tool_calls and block.get("input"):
            yield ToolCallDelta(index=self._tool_calls[index], arguments=dump_json(block["input"]))
        if kind in _THINKING_BLOCKS:
            yield ThoughtDelta(block=block)

    def finish(self) -> FinishedDelta | None:
        if not self.is_complete:
            return None
        with shared_value_limit():
            for index, block in self._blocks.items():
                text = self._inputs.get(index) or "".join(self._parts.get(index, ()))
                if text and block["type"] in _TOOL_BLOCKS:
                    block["input"] = arguments_of(text)
        self._message["content"] = [self._blocks[index] for index in sorted(self._blocks)]
        reason = self._message.get("stop_reason") or ""
        return FinishedDelta(
            reason=_REASONS.get(reason, "other"), provider_reason=reason, message=self._message
        )


PROVIDER = Provider(
    name="anthropic",
    title="Anthropic",
    format="anthropic_messages",
    sdk=anthropic_sdk,
    path="/v1/messages",
    context_fields=("tools", "system", "messages"),
    limit_field="max_tokens",
    reserved=(),
    defaults={"max_tokens": DEFAULT_MAX_TOKENS},
    reader=MessagesStreamReader,
    # Source: the request type of the SDK on 2026-11-23.
    priced_options=(
        "metadata", "output_config", "stop_sequences", "temperature", "thinking", "tool_choice", "top_k",
        "top_p",
    ),
    priced_tiers=("auto", "standard_only"),
    count_path="/v1/messages/count_tokens",
    count_fields=(
        "model", "system", "messages", "tools", "tool_choice", "thinking", "output_config", "cache_control",
    ),
)  # fmt: skip
