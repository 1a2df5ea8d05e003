"""The conversation: what a model reads of a session. Only this module pairs results with tool calls.

A **turn** is an output with its results. An **input** is anything else that a model reads. Episodes give
turns, policies choose among turns and inputs, and a format writes each of them once.

The rule, for the results of one entry in their order:

- A result with the id of an open call answers that call.
- A result without an id answers the first open call. The last such result of an entry answers all calls that
  are still open. So one result may answer a whole action, and parallel results without ids keep their order.
- Every other result answers nothing. It came late, twice, or for a call that the step does not have. A model
  reads it as text that names its call.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from historyapp.core.beginnings import beginning, repr_parts
from historyapp.core.entries import (
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.identifiers import texts_in
from historyapp.core.json import dump_json
from historyapp.core.open_calls import NONE_OPEN, OpenCalls
from historyapp.core.results import reported_text, returned_text

Status = Literal["in_flight", "success", "error", "interrupted_by_human", "answered", "abandoned"]
INSTRUCTING: tuple[Literal["system", "developer"], ...] = ("system", "developer")
"""Channels whose inputs are instructions."""
NO_RESULT = "interrupted: no result was recorded"
LATE_PREFIX = "A result"
"""The beginning of the text of a result that answers no open call."""
ANSWERED_TOGETHER = "Answered together with the call {}."


@dataclass(frozen=True, slots=True)
class Turn:
    """An output and its results."""

    position: int
    output: ModelOutput
    results: tuple[ToolResult, ...] = ()
    """One for each tool call, in their order; one for an action written as text; none for an answer. A call
    without a result gets one that says so."""
    remarks: tuple[str, ...] = ()
    """Further texts: remarks on the results as a whole, and results that answer no call."""
    has_reasoning: bool = True
    """Whether it is written with its reasoning blocks, as far as the provider accepts them."""


@dataclass(frozen=True, slots=True)
class InputMessage:
    """A text of a person, a program or an instruction between two turns."""

    position: int
    content: Any
    """Text, or a list of neutral parts."""
    channel: str = "user"

    @property
    def is_instruction(self) -> bool:
        return self.channel in INSTRUCTING


ConversationPart = Turn | InputMessage


class PairedResult(NamedTuple):
    """A result, and the ids of the calls that it answers; empty if it came late."""

    result: ToolResult
    calls: tuple[str, ...] = ()


class Progress(NamedTuple):
    """How far the calls of one output have been answered."""

    pending: OpenCalls = NONE_OPEN
    """Ids of the calls without a result. One empty id represents an action without provider calls."""
    statuses: tuple[str, ...] = ()
    """Result statuses so far, each once."""
    status: Status = "in_flight"

    @classmethod
    def begin(cls, output: ModelOutput) -> "Progress":
        if output.tool_calls:
            return cls(OpenCalls([tool_call.id for tool_call in output.tool_calls]))
        return _ONE_ACTION if output.use_tool else _ANSWERED

    def add_results(self, results: Sequence[ToolResult]) -> tuple["Progress", list[PairedResult]]:
        """Pairs the results of one entry. Returns the new progress, and the calls of each result."""
        if len(results) == 1:
            return self._add_result(results[0])
        pending, statuses = self.pending, self.statuses
        paired: list[PairedResult] = []
        calls_in_order = iter(self.pending)  # one pass for all results without ids
        without_id = sum(result.tool_call_id is None for result in results)
        for result in results:
            id = result.tool_call_id
            without_id -= id is None
            if id is not None:
                calls: tuple[str, ...] = (id,) if id in pending else ()
            elif not without_id:  # the last one answers all that are still open
                calls = tuple(dict.fromkeys(pending))
            else:
                calls = tuple(islice((call_id for call_id in calls_in_order if call_id in pending), 1))
            paired.append(PairedResult(result, calls))
            for call_id in calls:
                pending = pending.without(call_id)
            if calls and result.status not in statuses:
                statuses = (*statuses, result.status)
        if not any(calls for _, calls in paired):
            return self, paired
        return Progress(pending, statuses, "in_flight" if pending else outcome_of(statuses)), paired

    def _add_result(self, result: ToolResult) -> tuple["Progress", list[PairedResult]]:
        """As :meth:`add_results`, for a single result. Without an id, it answers all open calls."""
        pending, earlier, status, id = self.pending, self.statuses, result.status, result.tool_call_id
        if not pending or (id is not None and id not in pending):
            return self, [PairedResult(result)]
        statuses = earlier if status in earlier else (*earlier, status)
        if id is not None:
            left = pending.without(id)
            progress = Progress(left, statuses, "in_flight" if left else outcome_of(statuses))
            return progress, [PairedResult(result, (id,))]
        calls = ("",) if pending is _ONE_ACTION.pending else tuple(dict.fromkeys(pending))
        return Progress(NONE_OPEN, statuses, outcome_of(statuses)), [PairedResult(result, calls)]


_ONE_ACTION, _ANSWERED = Progress(OpenCalls(("",))), Progress(status="answered")


def outcome_of(statuses: Collection[str]) -> Status:
    """The worst of several results: a person's interruption, then an error, then success."""
    if "interrupted_by_human" in statuses:
        return "interrupted_by_human"
    return "error" if "error" in statuses else "success"


def turn_of(
    position: int, output: ModelOutput, received: Sequence[PairedResult], overall: Sequence[str] = ()
) -> Turn:
    """The turn of an output.

    Args:
        received: every result recorded for it, with the calls that it answers.
        overall: remarks on the results as a whole.
    """
    remarks = [*(f"Overall: {text}" for text in overall), *map(late_text, late_results(received))]
    return Turn(position, output, tuple(results_of_calls(output, received)), tuple(remarks))


def results_of_calls(output: ModelOutput, received: Sequence[PairedResult]) -> Iterator[ToolResult]:
    """One result for each call. A result that answers several calls has its text under the first."""
    answers = {call_id: answered for answered in received for call_id in answered.calls}
    shown: set[str] = set()
    for id in [tool_call.id for tool_call in output.tool_calls] or [""] * (output.use_tool is not None):
        answered = answers.get(id)
        if answered is None:
            yield ToolResult(tool_call_id=id or None, status="error", reason=NO_RESULT)
        elif answered.calls[0] not in shown:
            yield answered.result
        else:
            text = ANSWERED_TOGETHER.format(answered.calls[0])
            yield ToolResult(tool_call_id=id, status="success", outputs=text)
        shown.add(id)


def late_results(received: Sequence[PairedResult]) -> list[ToolResult]:
    """Results without a matching tool call. Exact repetitions of another result are left out."""
    if all(paired.calls for paired in received):
        return []
    late: dict[str, ToolResult] = {}
    seen: set[str] = set()
    for paired in sorted(received, key=lambda paired: not paired.calls):
        # Equal texts mean equal results. Comparing the results pairwise would take quadratic time.
        stored = dump_json(paired.result.model_dump(exclude_defaults=True))
        if not paired.calls and stored not in seen:
            late[stored] = paired.result
        seen.add(stored)
    return list(late.values())


def late_text(result: ToolResult) -> str:
    """A result that answers no open call, as text, because no provider accepts it in another form."""
    reference = f" for the call {result.tool_call_id}" if result.tool_call_id else ""
    return f"{LATE_PREFIX}{reference} that came late:\n{reported_text(result)}"


def input_messages(entry: Entry, *, in_step: bool = True) -> Iterator[InputMessage]:
    """The inputs in an entry. Results are inputs only if they belong to no step."""
    match entry.body:
        case SystemInstruction(text=text) | MemoryNotebook(content=text):
            yield InputMessage(entry.position, text, "system")
        case ModelInput(channel=channel, content=content):
            yield InputMessage(entry.position, content, channel)
        case body if body.is_input:
            yield InputMessage(entry.position, body.message_content)
        case ToolResults(overall=overall, results=results) if not in_step:
            texts = [f"Overall: {overall}"] if overall else []
            texts += map(late_text, late_results([PairedResult(result) for result in results]))
            yield InputMessage(entry.position, "\n\n".join(texts), "tool")


def output_text(output: ModelOutput) -> str:
    """An output as text. An action that the model wrote as text stays as written.

    Thoughts next to tool calls are the model's own reasoning. They are sent back to a model only as its
    provider's reasoning blocks.
    """
    if output.tool_calls or output.use_tool is None:
        return output.text or ("" if output.tool_calls or output.reasoning else output.thoughts_text)
    raw = (output.raw_message or {}).get("content")
    if isinstance(raw, str) and raw.strip():
        return raw
    action = call_text(output.use_tool.name, output.use_tool.arguments)
    return "\n\n".join(part for part in (output.thoughts_text, output.text, action) if part.strip())


def texts_of(part: ConversationPart) -> Iterator[str]:
    """All texts of a turn or an input that a model reads, including those in arguments."""
    if isinstance(part, InputMessage):
        yield from texts_in(part.content)
        return
    yield output_text(part.output)
    for tool_call in part.output.tool_calls:
        yield from texts_in(tool_call.arguments)
    output = None if part.output.tool_calls else part.output
    for result in part.results:
        yield reported_text(result, output) if output else returned_text(result)
    yield from part.remarks


def call_text(name: str, arguments: Any) -> str:
    """``name(k=repr(v), …)``; arguments that are not an object are shown as one ``repr``."""
    if not isinstance(arguments, dict):
        return f"{name}({arguments!r})"
    return f"{name}({', '.join([f'{key}={value!r}' for key, value in arguments.items()])})"


def calls_beginning(output: ModelOutput, length: int) -> str:
    """The first ``length`` characters of :func:`calls_text`, and some more that may differ."""
    tool_calls = (output.use_tool,) if output.use_tool else output.tool_calls
    return beginning(_calls_parts(tool_calls, length), length)


def _calls_parts(tool_calls: Sequence[UseTool | ToolCall], length: int) -> Iterator[str]:
    for number, tool_call in enumerate(tool_calls):
        yield "; " if number else ""
        yield f"{tool_call.name[:length]}("
        if isinstance(tool_call.arguments, dict):
            for place, (name, value) in enumerate(tool_call.arguments.items()):
                yield f"{', ' if place else ''}{name[:length]}="
                yield from repr_parts(value, length)
        else:
            yield from repr_parts(tool_call.arguments, length)
        yield ")"


def calls_text(output: ModelOutput) -> str:
    """A step's action; several provider calls are joined by semicolons. Empty for a final answer."""
    if output.use_tool:
        return call_text(output.use_tool.name, output.use_tool.arguments)
    return "; ".join(call_text(tool_call.name, tool_call.arguments) for tool_call in output.tool_calls)
