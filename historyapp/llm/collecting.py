"""The deltas of one answer as one ``model_output``."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.content import arguments_of
from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.core.usage import Usage
from historyapp.llm.deltas import (
    Finished,
    ModelOutputDelta,
    Restarted,
    Started,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)


@dataclass(frozen=True, slots=True)
class Collected:
    """A whole answer and what is known about it."""

    output: ModelOutput
    started: Started
    finished: Finished
    usage: UsageDelta | None
    """Null when the provider reported none."""

    @property
    def tokens(self) -> Usage:
        """Zeros when the provider reported none."""
        return self.usage.usage if self.usage else Usage()

    @property
    def metadata(self) -> dict[str, Any]:
        """What the metadata of the output's entry should say, with the usage in the provider's own words."""
        facts = {
            "provider": self.started.provider,
            "model": self.started.model,
            "source": {"id": self.started.id, "finish_reason": self.finished.provider_reason},
        }
        if self.usage is None:
            return facts
        convention = "anthropic" if self.started.provider == "anthropic" else "openai"
        return {**facts, "usage": self.usage.raw, "usage_convention": convention}


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def take(self, delta: ToolCallDelta) -> None:
        # The first one counts: some servers repeat id and name in every piece.
        self.id = self.id or delta.id or ""
        self.name = self.name or delta.name or ""
        self.arguments.append(delta.arguments)


class Collector:
    """Takes deltas as they pass by. A restart empties it."""

    def __init__(self) -> None:
        self._empty()

    def _empty(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[ThoughtDelta] = []
        self._calls: dict[int, _Call] = {}
        self._started: Started | None = None
        self._usage: UsageDelta | None = None
        self._finished: Finished | None = None

    def take(self, delta: ModelOutputDelta) -> None:
        match delta:
            case TextDelta(text=text):
                self._texts.append(text)
            case ThoughtDelta():
                self._thoughts.append(delta)
            case ToolCallDelta(index=index):
                self._calls.setdefault(index, _Call()).take(delta)
            case Started():
                self._started = delta
            case UsageDelta():
                self._usage = delta
            case Finished():
                self._finished = delta
            case Restarted():
                self._empty()

    def result(self) -> Collected:
        """The answer.

        Raises:
            ValueError: when it is not complete.
        """
        if self._started is None or self._finished is None:
            raise ValueError("The answer is not complete.")
        return Collected(self._output(self._finished), self._started, self._finished, self._usage)

    def _output(self, finished: Finished) -> ModelOutput:
        thoughts = "".join(delta.text for delta in self._thoughts)
        return ModelOutput(
            thoughts=thoughts or None,
            text="".join(self._texts),
            tool_calls=tuple(self._call(index) for index in sorted(self._calls)),
            reasoning=[delta.block for delta in self._thoughts if delta.block is not None],
            raw_message=finished.message,
        )

    def _call(self, index: int) -> ToolCall:
        call = self._calls[index]
        arguments = arguments_of("".join(call.arguments))
        # A call without an id could not be answered; a few compatible servers give none.
        id = call.id or f"call_{self._started.id if self._started else ''}_{index}"
        return ToolCall(id=id, name=call.name, arguments=arguments)


def collect(deltas: Iterable[ModelOutputDelta]) -> Collected:
    """All deltas of a call as its answer: text, thoughts, calls, reasoning blocks and the raw message.

    Raises:
        ValueError: when they end before the answer does.
    """
    collector = Collector()
    for delta in deltas:
        collector.take(delta)
    return collector.result()
