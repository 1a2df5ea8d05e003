"""Episodes: one proposed action (or final answer) and its result. People see them as "step N"."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import get_args

from historyapp.core.conversation import (
    ConversationPart,
    PairedResult,
    Progress,
    Status,
    Turn,
    input_messages,
    late_results,
    outcome_of,
    turn_of,
)
from historyapp.core.entries import Entry, ModelOutput, Review, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.results import result_text

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Episode:
    """One step with its bodies. ``number`` counts from 1 in the live history."""

    number: int
    output: ModelOutput
    first_position: int
    last_position: int
    started_at: datetime
    finished_at: datetime | None = None
    received: tuple[PairedResult, ...] = ()
    """Every result recorded during the step, in order, with the tool calls that it answers."""
    overall: tuple[str, ...] = ()
    """Remarks on results as a whole."""
    reviews: tuple[Review, ...] = ()
    progress: Progress = field(default_factory=Progress)
    summary: str | None = None
    _turn: Turn | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def status(self) -> Status:
        return self.progress.status

    @property
    def action(self) -> UseTool | ToolCall | None:
        """The action, or the first of several tool calls; None for a final answer."""
        return self.output.use_tool or (self.output.tool_calls[0] if self.output.tool_calls else None)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results that answer a call."""
        return tuple([answered.result for answered in self.received if answered.calls])

    @property
    def unpaired_results(self) -> tuple[ToolResult, ...]:
        """Results that answer none of the step's open calls: they came late, or twice."""
        return tuple([paired.result for paired in self.received if not paired.calls])

    @property
    def late(self) -> tuple[ToolResult, ...]:
        """The unpaired results, without exact repetitions."""
        return tuple(late_results(self.received))

    @property
    def result(self) -> ToolResult | None:
        """All results as one; None before the first."""
        return combine(self.output, self.received)

    @property
    def turn(self) -> Turn:
        """The step as a model reads it. Made once, because a step of 1,000 tool calls takes 2 ms."""
        if self._turn is None:
            turn = turn_of(self.first_position, self.output, self.received, self.overall)
            object.__setattr__(self, "_turn", turn)  # the instance is frozen
            return turn
        return self._turn


def episode_of(number: int, entries: Sequence[Entry]) -> Episode:
    """The episode of an output and the live entries after it, up to the next output."""
    first = entries[0]
    assert isinstance(first.body, ModelOutput)
    progress = Progress.begin(first.body)
    last, finished = first.position, first.created_at if progress.status == "answered" else None
    received, overall, reviews = list[PairedResult](), list[str](), list[Review]()
    for entry in entries[1:]:
        body = entry.body
        if isinstance(body, ToolResults):
            before, (progress, answered) = progress, progress.add_results(body.results)
            received += answered
            overall += [body.overall] if body.overall else []
            if progress is not before and not progress.pending:
                finished = entry.created_at
        elif isinstance(body, Review):
            reviews.append(body)
        else:
            continue
        last = entry.position
    return Episode(
        number=number,
        output=first.body,
        first_position=first.position,
        last_position=last,
        started_at=first.created_at,
        finished_at=finished,
        received=tuple(received),
        overall=tuple(overall),
        reviews=tuple(reviews),
        progress=progress,
    )


def abandon(episode: Episode) -> Episode:
    """The step once the next one begins: abandoned if it has open calls, otherwise unchanged."""
    if episode.status != "in_flight":
        return episode
    return replace(episode, progress=episode.progress._replace(status="abandoned"))


def group_episodes(entries: Iterable[Entry], first_number: int = 1) -> Iterator[Episode]:
    """Live entries, oldest first, as episodes; the first output becomes ``first_number``."""
    number, newest = first_number, None
    for group in entry_groups(entries):
        if isinstance(group[0].body, ModelOutput):
            if newest is not None:
                yield abandon(newest)
            newest = episode_of(number, group)
            number += 1
    if newest is not None:
        yield newest


def conversation_parts(entries: Iterable[Entry]) -> Iterator[ConversationPart]:
    """Live entries, oldest first, as a model reads them. Inputs during a step come after it."""
    for group in entry_groups(entries):
        in_step = isinstance(group[0].body, ModelOutput)
        if in_step:
            yield episode_of(0, group).turn
        for entry in group:
            yield from input_messages(entry, in_step=in_step)


def entry_groups(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Each entry before the first output, then each output with the entries after it."""
    group: list[Entry] = []
    for entry in entries:
        if isinstance(entry.body, ModelOutput):
            if group:
                yield group
            group = [entry]
        elif group:
            group.append(entry)
        else:
            yield [entry]
    if group:
        yield group


def combine(output: ModelOutput, received: Sequence[PairedResult]) -> ToolResult | None:
    """All answers as one result: the worst status, and each text with the name of its call."""
    answers = [answer for answer in received if answer.calls]
    if len(answers) <= 1:
        return answers[0].result if answers else None
    calls = output.tool_calls
    # Numbered, because parallel calls often have the same name. Of two with the same id, the first counts.
    labels = {
        tool_call.id: f"{tool_call.name} ({n} of {len(calls)})"
        for n, tool_call in reversed([*enumerate(calls, 1)])
    }
    texts = "\n".join(f"{labels[answer.calls[0]]}: {result_text(answer.result)}" for answer in answers)
    match outcome_of([answer.result.status for answer in answers]):
        case "error":
            return ToolResult(status="error", reason=texts)
        case "interrupted_by_human":
            return ToolResult(status="interrupted_by_human", feedback=texts)
        case _:
            return ToolResult(status="success", outputs=texts)
