"""Combines a streamed response into one ``model_output``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.content import arguments_of
from historyapp.core.embedded_json import shared_value_limit
from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.core.usage import Usage
from historyapp.llm.deltas import (
    FinishedDelta,
    ModelOutputDelta,
    RestartedDelta,
    StartedDelta,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)


@dataclass(frozen=True, slots=True)
class Completion:
    """A complete response."""

    output: ModelOutput
    started: StartedDelta
    finished: FinishedDelta
    usage: UsageDelta | None
    """None if the provider did not report usage."""

    @property
    def billed(self) -> Usage | None:
        """The tokens that the provider bills. None if they are not known: it reported no usage, or no tokens
        for the prompt, or none for a response with content.
        """
        usage, output = self.tokens, self.output
        is_empty = not (output.text or output.thoughts or output.tool_calls)
        return usage if usage.input and (usage.output or is_empty) else None

    @property
    def tokens(self) -> Usage:
        """Zeros if the provider did not report usage."""
        return self.usage.usage if self.usage else Usage()


@dataclass(slots=True)
class _ToolCallParts:
    """Only the first id and name are used: some servers repeat them in every delta."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def add(self, delta: ToolCallDelta) -> None:
        self.id = self.id or delta.id or ""
        self.name = self.name or delta.name or ""
        self.arguments.append(delta.arguments)

    def tool_call(self, default_id: str) -> ToolCall:
        """A few servers send no id, and a tool call without an id could have no result."""
        return ToolCall(
            id=self.id or default_id, name=self.name, arguments=arguments_of("".join(self.arguments))
        )


class CompletionBuilder:
    """Combines deltas. A :class:`RestartedDelta` drops the earlier deltas."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._tool_calls: dict[int, _ToolCallParts] = {}
        self._started: StartedDelta | None = None
        self._usage: UsageDelta | None = None
        self._finished: FinishedDelta | None = None

    def add(self, delta: ModelOutputDelta) -> None:
        match delta:
            case TextDelta(text=text):
                self._texts.append(text)
            case ThoughtDelta(text=text, block=block):
                self._thoughts.append(text)
                if block is not None:
                    self._blocks.append(block)
            case ToolCallDelta(index=index):
                self._tool_calls.setdefault(index, _ToolCallParts()).add(delta)
            case StartedDelta():
                self._started = delta
            case UsageDelta():
                self._usage = delta
            case FinishedDelta():
                self._finished = delta
            case RestartedDelta():
                self._reset()

    def completion(self) -> Completion:
        """The complete response.

        Raises:
            ValueError: if the response is not complete.
        """
        started, finished = self._started, self._finished
        if started is None or finished is None:
            raise ValueError("The response is not complete.")
        with shared_value_limit():
            tool_calls = [
                parts.tool_call(f"call_{started.id}_{index}")
                for index, parts in sorted(self._tool_calls.items())
            ]
        output = ModelOutput(
            thoughts="".join(self._thoughts) or None,
            text="".join(self._texts),
            tool_calls=tuple(tool_calls),
            reasoning=self._blocks,
            raw_message=finished.message,
        )
        return Completion(output, started, finished, self._usage)


def collect(deltas: Iterable[ModelOutputDelta]) -> Completion:
    """Combines all deltas of a model call.

    Raises:
        ValueError: if the deltas end before the response is complete.
    """
    builder = CompletionBuilder()
    for delta in deltas:
        builder.add(delta)
    return builder.completion()
