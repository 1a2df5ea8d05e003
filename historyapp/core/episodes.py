"""Episodes: one proposed action (or final answer) and what came back. People see them as "step N"."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from historyapp.core.conversation import (
    Answered,
    Progress,
    Said,
    Status,
    Turn,
    asides_of,
    late_results,
    outcome_of,
    turn_of,
)
from historyapp.core.entries import Entry, ModelOutput, Review, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.results import result_text

STATUSES: tuple[Status, ...] = (
    "in_flight", "success", "error", "interrupted_by_human", "answered", "abandoned",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Episode:
    """One step with its bodies. ``number`` counts from 1 in the live history."""

    number: int
    output: ModelOutput
    first_position: int
    last_position: int
    started_at: datetime
    finished_at: datetime | None = None
    received: tuple[Answered, ...] = ()
    """Every result recorded during the step, in order, with the calls that it answers."""
    overall: tuple[str, ...] = ()
    """Remarks on results as a whole."""
    reviews: tuple[Review, ...] = ()
    progress: Progress = field(default_factory=Progress)
    summary: str | None = None

    @property
    def status(self) -> Status:
        return self.progress.status

    @property
    def thoughts(self) -> str:
        return self.output.thoughts_text

    @property
    def action(self) -> UseTool | ToolCall | None:
        """What was done; the first call where there are several; None for a final answer."""
        return self.output.use_tool or (self.output.tool_calls[0] if self.output.tool_calls else None)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results that answer a call."""
        return tuple([answered.result for answered in self.received if answered.calls])

    @property
    def strays(self) -> tuple[ToolResult, ...]:
        """Results that answer none of the step's open calls: they came late, or twice."""
        return tuple([answered.result for answered in self.received if not answered.calls])

    @property
    def late(self) -> tuple[ToolResult, ...]:
        """The strays, without exact repetitions."""
        return tuple(late_results(self.received))

    @property
    def result(self) -> ToolResult | None:
        """What came back, as one result; None until something has."""
        return combine(self.output, self.received)

    @property
    def turn(self) -> Turn:
        """The step as a model reads it."""
        return turn_of(self.first_position, self.output, self.received, self.overall)


def begin_episode(number: int, entry: Entry) -> Episode:
    """The episode that a ``model_output`` entry starts."""
    assert isinstance(entry.body, ModelOutput)
    progress = Progress.begin(entry.body)
    finished = entry.created_at if progress.status == "answered" else None
    return Episode(
        number,
        entry.body,
        entry.position,
        entry.position,
        entry.created_at,
        finished,
        progress=progress,
    )


def continue_episode(episode: Episode, entry: Entry) -> Episode:
    """With one more live entry. Entries that do not belong to a step leave it as it is."""
    match entry.body:
        case ToolResults():
            return _with_results(episode, entry, entry.body)
        case Review():
            return replace(episode, reviews=(*episode.reviews, entry.body), last_position=entry.position)
        case _:
            return episode


def _with_results(episode: Episode, entry: Entry, body: ToolResults) -> Episode:
    progress, answered = episode.progress.take(body.results)
    done = progress is not episode.progress and not progress.pending
    return replace(
        episode,
        received=(*episode.received, *answered),
        overall=(*episode.overall, body.overall) if body.overall else episode.overall,
        last_position=entry.position,
        finished_at=entry.created_at if done else episode.finished_at,
        progress=progress,
    )


def abandon(episode: Episode) -> Episode:
    """A step whose calls are still open when the next one begins is abandoned; others stay as they are."""
    if episode.status != "in_flight":
        return episode
    return replace(episode, progress=episode.progress._replace(status="abandoned"))


def group_episodes(entries: Iterable[Entry], first_number: int = 1) -> Iterator[Episode]:
    """Live entries, oldest first, as episodes; the first output becomes ``first_number``."""
    current: Episode | None = None
    number = first_number
    for entry in entries:
        if isinstance(entry.body, ModelOutput):
            if current is not None:
                yield abandon(current)
            current = begin_episode(number, entry)
            number += 1
        elif current is not None:
            current = continue_episode(current, entry)
    if current is not None:
        yield current


def conversation(entries: Iterable[Entry]) -> Iterator[Said]:
    """Live entries, oldest first, as a model reads them. What was said during a step stands after it."""
    current: Episode | None = None
    asides: list[Said] = []
    for entry in entries:
        if isinstance(entry.body, ModelOutput):
            yield from [*([current.turn] if current else []), *asides]
            current, asides = begin_episode(0, entry), []
        elif current:
            current = continue_episode(current, entry)
        asides += asides_of(entry, in_step=current is not None)
    yield from [*([current.turn] if current else []), *asides]


def combine(output: ModelOutput, received: Sequence[Answered]) -> ToolResult | None:
    """The results that answer calls as one: the worst status, and every text under its call."""
    answers = [answered for answered in received if answered.calls]
    if len(answers) <= 1:
        return answers[0].result if answers else None
    labels = _labels(output)
    texts = "\n".join(f"{labels[each.calls[0]]}: {result_text(each.result)}" for each in answers)
    match outcome_of(answered.result.status for answered in answers):
        case "error":
            return ToolResult(status="error", reason=texts)
        case "interrupted_by_human":
            return ToolResult(status="interrupted_by_human", feedback=texts)
        case _:
            return ToolResult(status="success", outputs=texts)


def _labels(output: ModelOutput) -> dict[str, str]:
    """Each call's name with its number, by the call's id: parallel calls often have one name."""
    calls = output.tool_calls
    numbered = [(call.id, f"{call.name} ({n} of {len(calls)})") for n, call in enumerate(calls, 1)]
    return dict(reversed(numbered))  # of two calls with one id, the first


def action_of(episode: Episode) -> dict[str, Any] | None:
    """``{name, arguments}`` of the action, as the API shows it."""
    action = episode.action
    return {"name": action.name, "arguments": action.arguments} if action else None
