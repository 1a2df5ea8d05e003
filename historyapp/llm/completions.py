"""Combines a streamed response into one ``model_output``."""

from collections.abc import Iterable
from dataclasses import dataclass

from historyapp.core.content import arguments_of
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
    def tokens(self) -> Usage:
        """Zeros if the provider did not report usage."""
        return self.usage.usage if self.usage else Usage()


class CompletionBuilder:
    """Combines deltas. A :class:`RestartedDelta` drops the earlier deltas."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[ThoughtDelta] = []
        self._tool_calls: dict[int, list[ToolCallDelta]] = {}
        self._started: StartedDelta | None = None
        self._usage: UsageDelta | None = None
        self._finished: FinishedDelta | None = None

    def add(self, delta: ModelOutputDelta) -> None:
        match delta:
            case TextDelta(text=text):
                self._texts.append(text)
            case ThoughtDelta():
                self._thoughts.append(delta)
            case ToolCallDelta(index=index):
                self._tool_calls.setdefault(index, []).append(delta)
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
        output = ModelOutput(
            thoughts="".join(delta.text for delta in self._thoughts) or None,
            text="".join(self._texts),
            tool_calls=tuple(self._tool_call(index, started.id) for index in sorted(self._tool_calls)),
            reasoning=[delta.block for delta in self._thoughts if delta.block is not None],
            raw_message=finished.message,
        )
        return Completion(output, started, finished, self._usage)

    def _tool_call(self, index: int, response_id: str) -> ToolCall:
        deltas = self._tool_calls[index]
        # Only the first id and name are used: some servers repeat them in every delta. A few servers send no
        # id, and a tool call without an id could have no result.
        id = next((delta.id for delta in deltas if delta.id), f"call_{response_id}_{index}")
        name = next((delta.name for delta in deltas if delta.name), "")
        return ToolCall(
            id=id, name=name, arguments=arguments_of("".join(delta.arguments for delta in deltas))
        )


def collect(deltas: Iterable[ModelOutputDelta]) -> Completion:
    """Combines all deltas of a model call.

    Raises:
        ValueError: if the deltas end before the response is complete.
    """
    builder = CompletionBuilder()
    for delta in deltas:
        builder.add(delta)
    return builder.completion()
