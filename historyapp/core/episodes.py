"""Episodes: one proposed action (or final answer) and what came back. People see them as "step N"."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from historyapp.core.entries import (
    Entry,
    ModelOutput,
    Review,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.open_calls import NONE_OPEN, OpenCalls
from historyapp.core.results import result_text

Status = Literal["in_flight", "success", "error", "interrupted_by_human", "answered", "abandoned"]
STATUSES: tuple[Status, ...] = (
    "in_flight", "success", "error", "interrupted_by_human", "answered", "abandoned",
)  # fmt: skip


class Progress(NamedTuple):
    """How far the calls of one output have been answered. It takes results in any order and number."""

    pending: OpenCalls = NONE_OPEN
    """Ids of the calls without a result; one empty id stands for an action without provider calls."""
    statuses: tuple[str, ...] = ()
    """Result statuses so far, each once."""
    status: Status = "in_flight"

    @classmethod
    def begin(cls, output: ModelOutput) -> "Progress":
        if output.tool_calls:
            return cls(OpenCalls([call.id for call in output.tool_calls]))
        return cls(OpenCalls(("",))) if output.use_tool else cls(status="answered")

    def expects(self, result: ToolResult) -> bool:
        """Whether this result answers something that is still open."""
        return self.take(result) is not self

    def take(self, result: ToolResult) -> "Progress":
        """With one more result; itself where that answers nothing that is open.

        A result without ``tool_call_id`` answers the whole action.
        """
        id, pending = result.tool_call_id, self.pending
        if not pending:
            return self
        if id is not None and id in pending:
            pending = pending.without(id)
        elif id is None or pending.unnamed:
            pending = NONE_OPEN
        else:
            return self
        status, statuses = result.status, self.statuses
        if status not in statuses:
            statuses = (*statuses, status)
        return Progress(pending, statuses, "in_flight" if pending else _outcome(statuses))


def _outcome(statuses: Collection[str]) -> Status:
    """The worst of several results: a person's interruption, then an error, then success."""
    if "interrupted_by_human" in statuses:
        return "interrupted_by_human"
    return "error" if "error" in statuses else "success"


@dataclass(frozen=True, slots=True)
class Episode:
    """One step with its bodies. ``number`` counts from 1 in the live history."""

    number: int
    output: ModelOutput
    first_position: int
    last_position: int
    started_at: datetime
    finished_at: datetime | None = None
    results: tuple[ToolResult, ...] = ()
    strays: tuple[ToolResult, ...] = ()
    """Results recorded during the step that answer none of its open calls: they came late, or twice."""
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
    def late(self) -> tuple[ToolResult, ...]:
        """The strays that say something which no result before them says."""
        said = [*self.results, *self.strays]
        start = len(self.results)
        return tuple(stray for n, stray in enumerate(self.strays, start) if stray not in said[:n])

    @property
    def result(self) -> ToolResult | None:
        """What came back, as one result; None until something has."""
        return combine(self.results)


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
    if not body.results:
        return episode
    progress, taken, strays = episode.progress, list[ToolResult](), list[ToolResult]()
    for result in body.results:
        after = progress.take(result)
        (strays if after is progress else taken).append(result)
        progress = after
    episode = replace(episode, strays=(*episode.strays, *strays), last_position=entry.position)
    if not taken:
        return episode
    return replace(
        episode,
        results=(*episode.results, *taken),
        finished_at=None if progress.pending else entry.created_at,
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


def combine(results: tuple[ToolResult, ...]) -> ToolResult | None:
    """Several results as one: the worst status, every text under its tool's name."""
    if len(results) <= 1:
        return results[0] if results else None
    texts = "\n".join(f"{r.tool_name or r.tool_call_id}: {result_text(r)}" for r in results)
    match _outcome({result.status for result in results}):
        case "error":
            return ToolResult(status="error", reason=texts)
        case "interrupted_by_human":
            return ToolResult(status="interrupted_by_human", feedback=texts)
        case _:
            return ToolResult(status="success", outputs=texts)


def action_of(episode: Episode) -> dict[str, Any] | None:
    """``{name, arguments}`` of the action, as the API shows it."""
    action = episode.action
    return {"name": action.name, "arguments": action.arguments} if action else None
