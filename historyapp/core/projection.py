"""The fold that turns a lineage of entries into counters and episode rows.

Both the append path and ``manage.py rebuild_projections`` run this same fold, so what is shown can always be
made again from the log. It keeps what it needs between appends in :class:`Tail`, which the session row holds:
appending never reads earlier entries. The values here are named tuples, which change faster than dataclasses.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from historyapp.core.entries import (
    Body,
    Entry,
    ModelInput,
    ModelOutput,
    Review,
    ToolResult,
    ToolResults,
    text_of,
)
from historyapp.core.episodes import Episode, Progress, Status, begin_episode
from historyapp.core.excerpts import Excerpt, begin_excerpt, continue_excerpt
from historyapp.core.open_calls import NONE_OPEN, OpenCalls
from historyapp.core.rendering import calls_text
from historyapp.core.results import result_text
from historyapp.core.text import preview
from historyapp.core.usage import ModelTotals, cost_of, usage_of

MOST_MODELS = 20
"""Models that running totals tell apart; what further ones use is counted under the empty name."""
_NO_MODELS: Mapping[str, ModelTotals] = MappingProxyType({})


class Totals(NamedTuple):
    """Running totals of a lineage up to and including one entry. They never change once written."""

    steps: int = 0
    errors: int = 0
    tokens: int = 0
    """As a model would read the entries, by our own count."""
    input_tokens: int = 0
    """As providers reported them, summed over calls."""
    output_tokens: int = 0
    cost: int = 0
    """Reported by the source, in millionths of a US dollar."""
    models: Mapping[str, ModelTotals] = _NO_MODELS
    """What each model used, by the name that the calls' metadata give; empty where they give none."""

    def dump(self) -> dict[str, Any]:
        """As stored: zeros are left out."""
        stored: dict[str, Any] = {name: value for name, value in self._asdict().items() if value}
        if self.models:
            stored["models"] = {name: list(totals) for name, totals in self.models.items()}
        return stored

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Totals":
        models = data.get("models")
        if not models:
            return cls(**data)
        return cls(**{**data, "models": {name: ModelTotals(*totals) for name, totals in models.items()}})

    def with_call(self, entry: Entry) -> "Totals":
        """With what an entry reports of the model call behind it."""
        metadata = entry.metadata
        if not metadata:
            return self
        usage, cost = usage_of(metadata), cost_of(metadata)
        if not (usage.input or usage.output or cost):
            return self
        given = metadata.get("model")
        name = preview(given, 100) if isinstance(given, str) else ""
        if name not in self.models and len(self.models) >= MOST_MODELS:
            name = ""
        used = self.models.get(name, ModelTotals()).plus(usage, cost, metadata)
        return self._replace(
            input_tokens=self.input_tokens + usage.input,
            output_tokens=self.output_tokens + usage.output,
            cost=self.cost + cost,
            models={**self.models, name: used},
        )


class Step(NamedTuple):
    """An episode as lists show it: its row in the ``Episode`` table. Previews hold up to 200 characters."""

    anchor: int
    """Where the step began. In a row made for a step that a rewind or a fork cut: the position before the new
    tail, that is of the rewind entry or of the fork point."""
    number: int
    first_position: int
    last_position: int
    status: Status
    pending: OpenCalls = NONE_OPEN
    statuses: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()
    input_preview: str = ""
    """What was said to the agent since the step before."""
    thought_preview: str = ""
    call_preview: str = ""
    result_preview: str = ""
    tokens: int = 0
    started_at: str = ""
    """ISO 8601, as the entry has it."""
    finished_at: str | None = None
    total_tokens: int = 0
    total_errors: int = 0
    unpaired: int = 0
    """Results recorded during this step that answer none of its calls."""
    excerpt: Excerpt | None = None
    """Null: not worked out here. The row may have it."""

    @property
    def progress(self) -> Progress:
        return Progress(self.pending, self.statuses, self.status)

    def dump(self) -> dict[str, Any]:
        """As stored with a session. The excerpt of a step that has ended is in its row alone."""
        excerpt = self.excerpt.dump() if self.excerpt and self.pending else None
        return {**self._asdict(), "pending": list(self.pending), "excerpt": excerpt}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Step":
        tuples = {name: tuple(data[name]) for name in ("statuses", "tool_names")}
        excerpt = Excerpt.load(data["excerpt"]) if data.get("excerpt") else None
        return cls(**{**data, **tuples, "pending": OpenCalls(data["pending"]), "excerpt": excerpt})


class Tail(NamedTuple):
    """The live end of a session: all that the next append needs to know."""

    totals: Totals = Totals()
    step: Step | None = None
    input_preview: str = ""

    def dump(self) -> dict[str, Any]:
        """As stored."""
        step = self.step.dump() if self.step else None
        return {"totals": self.totals.dump(), "step": step, "input_preview": self.input_preview}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Tail":
        stored = data.get("step")
        step = Step.load(stored) if stored else None
        return cls(Totals.load(data.get("totals", {})), step, data.get("input_preview", ""))


class Advance(NamedTuple):
    """What one entry changes."""

    tail: Tail
    changed: tuple[Step, ...] = ()
    """Episode rows to write, oldest first."""


def advance(tail: Tail, entry: Entry, *, excerpts: bool = True) -> Advance:
    """The tail after one more live entry, and the episode rows that it changes.

    ``excerpts``: whether a step that begins here gets an excerpt.
    """
    totals = tail.totals.with_call(entry)._replace(tokens=tail.totals.tokens + entry.tokens)
    body = entry.body
    if isinstance(body, ModelOutput):
        return _begin(tail._replace(totals=totals), entry, body, excerpts=excerpts)
    if isinstance(body, ModelInput):
        return Advance(tail._replace(totals=totals, input_preview=preview(text_of(body.content))))
    if tail.step is not None and isinstance(body, (ToolResults, Review)):
        return _continue(tail._replace(totals=totals), tail.step, entry)
    return Advance(tail._replace(totals=totals))


def _begin(tail: Tail, entry: Entry, output: ModelOutput, *, excerpts: bool) -> Advance:
    changed: list[Step] = []
    if tail.step is not None and tail.step.status == "in_flight":
        changed.append(tail.step._replace(status="abandoned"))
    totals = tail.totals._replace(steps=tail.totals.steps + 1)
    episode = begin_episode(totals.steps, entry)
    step = row_of(episode)._replace(
        input_preview=tail.input_preview,
        tokens=entry.tokens,
        total_tokens=totals.tokens,
        total_errors=totals.errors,
        excerpt=begin_excerpt(output, entry.tokens) if excerpts else None,
    )
    return Advance(Tail(totals, step), (*changed, step))


def row_of(episode: Episode) -> Step:
    """The row of an episode that has just begun, without its counters."""
    output = episode.output
    names = [output.use_tool.name] if output.use_tool else [call.name for call in output.tool_calls]
    return Step(
        anchor=episode.first_position,
        number=episode.number,
        first_position=episode.first_position,
        last_position=episode.last_position,
        status=episode.status,
        pending=episode.progress.pending,
        tool_names=tuple(preview(name, 100) for name in names[:20]),
        thought_preview=preview(episode.thoughts or (output.text if names else "")),
        call_preview=preview(calls_text(episode)),
        result_preview="" if names else preview(output.text),
        started_at=_iso(episode.started_at),
        finished_at=_iso(episode.finished_at) if episode.finished_at else None,
    )


def _continue(tail: Tail, step: Step, entry: Entry) -> Advance:
    body: Body = entry.body
    totals = tail.totals
    if isinstance(body, ToolResults):
        changed = _answer(step, body.results, entry)
    else:
        changed = step._replace(last_position=entry.position)
    if changed.status == "error" and step.status != "error":
        totals = totals._replace(errors=totals.errors + 1)
    changed = changed._replace(
        tokens=step.tokens + entry.tokens,
        total_tokens=totals.tokens,
        total_errors=totals.errors,
    )
    return Advance(tail._replace(totals=totals, step=changed), (changed,))


def _answer(step: Step, results: tuple[ToolResult, ...], entry: Entry) -> Step:
    progress, unpaired = step.progress, step.unpaired
    shown = step.result_preview
    for result in results:
        after = progress.take(result)
        if after is progress:
            unpaired += 1
            continue
        progress = after
        if not shown or result.status != "success":
            shown = preview(str(result.outputs) if result.status == "success" else result_text(result))
    if results:
        excerpt = step.excerpt
        if excerpt and step.pending:
            excerpt = continue_excerpt(excerpt, results, entry.tokens)
        step = step._replace(last_position=entry.position, unpaired=unpaired, excerpt=excerpt)
    if progress == step.progress:
        return step
    return step._replace(
        status=progress.status,
        pending=progress.pending,
        statuses=progress.statuses,
        result_preview=shown,
        finished_at=None if progress.pending else _iso(entry.created_at),
    )


def _iso(moment: datetime) -> str:
    return moment.isoformat()
