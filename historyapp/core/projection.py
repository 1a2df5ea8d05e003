"""Computes counters and episode rows from a lineage of entries, one entry after another.

Both appends and ``playhead rebuild-projections`` use it, so the rows can always be rebuilt from the log. The
state between appends is a :class:`Tail` in the session row, so an append never reads earlier entries. The
values are named tuples, which are faster to copy with changes than dataclasses.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from historyapp.core.call_subjects import Kind
from historyapp.core.conversation import PairedResult, Progress, Status
from historyapp.core.dates import iso_text
from historyapp.core.entries import (
    DebugLog,
    Entry,
    ModelInput,
    ModelOutput,
    Review,
    ToolResults,
    marks_compaction,
)
from historyapp.core.failures import Check, error_line, likely_failure
from historyapp.core.open_calls import NONE_OPEN, OpenCalls
from historyapp.core.output_facts import OutputFacts, output_facts
from historyapp.core.person_inputs import begins_turn, is_interruption, typed_text
from historyapp.core.result_previews import ResultTexts, result_preview
from historyapp.core.run_clock import Clock
from historyapp.core.text import preview
from historyapp.core.usage import NO_CALLS, NO_USAGE, ModelTotals, cost_of, names_fit, usage_of
from historyapp.core.waits import running_after, wait_target

_NO_MODELS: Mapping[str, ModelTotals] = MappingProxyType({})
_NO_CHECKS: Mapping[str, Check] = MappingProxyType({})
_NO_TEXTS = ResultTexts()
_NO_KINDS: Mapping[str, int] = {}
_NONE_RUNNING: Mapping[str, str] = MappingProxyType({})


class Totals(NamedTuple):
    """Running totals of a lineage up to and including one entry. They never change once written."""

    steps: int = 0
    errors: int = 0
    tokens: int = 0
    """The tokens of the entries as a model reads them, by our own count."""
    input_tokens: int = 0
    """As reported by providers, added up over all model calls; likewise ``output_tokens``."""
    output_tokens: int = 0
    cost: int = 0
    """Reported by the source, in millionths of a US dollar."""
    models: Mapping[str, ModelTotals] = _NO_MODELS
    """Usage by model name; the empty name for model calls whose metadata names no model."""
    orphans: int = 0
    """Entries of results recorded before the first step; only transcripts have them."""
    idle: int = 0
    """The idle milliseconds up to the entry, see :mod:`historyapp.core.run_clock`; without those between the
    entries that forks share and their own. Entries of earlier versions do not have it."""
    interruptions: int = 0
    """How often a person interrupted the model: at most once before each step and after the newest one.
    Entries of earlier versions do not have it."""

    def dump(self) -> dict[str, Any]:
        """As stored: zeros are left out."""
        steps, errors, tokens, *further = self
        if steps and tokens and further == _NOTHING_FURTHER:  # most entries; an append waits for this
            return {"steps": steps, **({"errors": errors} if errors else {}), "tokens": tokens}
        stored = {name: value for name, value in zip(self._fields, self, strict=True) if value}
        if self.models:
            stored["models"] = {name: totals.dump() for name, totals in self.models.items()}
        return stored

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Totals":
        models = data.get("models")
        if not models:
            return cls(**data)
        return cls(**{**data, "models": {name: ModelTotals(*totals) for name, totals in models.items()}})

    def with_entry(self, entry: Entry) -> "Totals":
        """The totals after one more entry, with the usage that it reports."""
        steps = self.steps + isinstance(entry.body, ModelOutput)
        tokens = self.tokens + entry.tokens
        orphans = self.orphans + (not steps and isinstance(entry.body, ToolResults))
        usage, cost = (usage_of(entry.metadata), cost_of(entry.metadata)) if entry.metadata else (NO_USAGE, 0)
        if not (usage.input or usage.output or cost):
            known = (self.input_tokens, self.output_tokens, self.cost, self.models)
            return Totals(steps, self.errors, tokens, *known, orphans, self.idle, self.interruptions)
        model = entry.metadata.get("model")
        name = preview(model, 100) if isinstance(model, str) else ""
        if name not in self.models and not names_fit([*self.models, name]):
            name = ""
        written = entry.tokens if isinstance(entry.body, ModelOutput) else 0
        totals = self.models.get(name, NO_CALLS).plus(usage, cost, entry.metadata, written)
        return Totals(
            steps,
            self.errors,
            tokens,
            self.input_tokens + usage.input,
            self.output_tokens + usage.output,
            self.cost + cost,
            {**self.models, name: totals},
            orphans,
            self.idle,
            self.interruptions,
        )


_NOTHING_FURTHER = list(Totals()[3:])


class Step(NamedTuple):
    """An episode as lists show it: its row in the ``Episode`` table. Previews hold up to 200 characters."""

    anchor: int
    """The position where the step began. In the row of a step that a rewind or a fork cut: the position
    before the new tail, which is that of the rewind entry or the fork point."""
    number: int
    first_position: int
    last_position: int
    status: Status
    pending: OpenCalls = NONE_OPEN
    statuses: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()
    input_preview: str = ""
    """The newest input since the step before."""
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
    kind: Kind | Literal[""] = ""
    """The kind of the first call, see :mod:`historyapp.core.call_subjects`. Empty in an answer. In rows of
    earlier versions this and the four columns below are empty until ``rebuild_projections`` has run."""
    target: str = ""
    """What the first call is about: its command, file, pattern, address or task, up to 200 characters."""
    likely_failure: str = ""
    """The rule by which a result that was reported as a success looks like a failure, or empty."""
    error_line: str = ""
    """The first line that says what failed, reported or likely, up to 200 characters."""
    total_likely_failures: int = 0
    """Live steps up to and including this one that have a ``likely_failure``."""
    turn: int = 0
    """The number of turns up to this step. A turn begins with the first step after an input from a person. 0
    before the first turn, and in rows of earlier versions until a worker has counted them."""
    turn_first: int = 0
    """The first step of the turn; 0 if ``turn`` is 0."""
    compactions: int = 0
    """Steps up to this one before which the agent compacted its context."""
    kind_totals: Mapping[str, int] = _NO_KINDS
    """Steps up to this one by ``kind``, without answers."""
    checks: Mapping[str, Check] = _NO_CHECKS
    """How to check the results of the calls, by their ids. Not in the row."""

    @property
    def progress(self) -> Progress:
        return Progress(self.pending, self.statuses, self.status)

    def dump(self) -> dict[str, Any]:
        """As stored with a session."""
        checks = {id: list(check) for id, check in self.checks.items()} if self.pending else {}
        return {**self._asdict(), "pending": list(self.pending), "checks": checks}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Step":
        tuples = {name: tuple(data[name]) for name in ("statuses", "tool_names")}
        # An earlier version stored pairs.
        checks = {id: Check.load(check) for id, check in dict(data.get("checks", ())).items()}
        pending = OpenCalls(data["pending"])
        stored = {**data, **tuples, "pending": pending, "checks": checks}
        stored.pop("excerpt", None)  # an earlier version had it here
        return cls(**stored)


_BEFORE_THE_FIRST = Step(0, 0, 0, 0, "success")
"""The totals before the first step."""


FLAGS = ("begins_turn", "is_compacted", "is_interrupted")
"""The fields of a tail that are stored only if they are true."""


class Tail(NamedTuple):
    """The live end of a session: everything that the next append needs."""

    totals: Totals = Totals()
    step: Step | None = None
    input_preview: str = ""
    begins_turn: bool = False
    """Whether a person sent an input after the newest step."""
    is_compacted: bool = False
    """Whether the agent compacted its context after the newest step."""
    clock: Clock = Clock()
    is_interrupted: bool = False
    """Whether a person interrupted the model after the newest step."""
    running: Mapping[str, str] = _NONE_RUNNING
    """The newest commands that still run, by their ids; none after a rewind or a fork."""

    @property
    def step_totals(self) -> Totals:
        """The totals, without an interruption after the newest step."""
        return self.totals._replace(interruptions=self.totals.interruptions - self.is_interrupted)

    def dump(self) -> dict[str, Any]:
        """As stored."""
        step = self.step.dump() if self.step else None
        stored = {"totals": self.totals.dump(), "step": step, "input_preview": self.input_preview}
        flags = {name: getattr(self, name) for name in FLAGS}
        further = {"clock": self.clock.dump()} if self.clock.newest_at or self.clock.is_waiting else {}
        further |= {"running": dict(self.running)} if self.running else {}
        return {**stored, **{name: True for name, value in flags.items() if value}, **further}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Tail":
        stored = data.get("step")
        step = Step.load(stored) if stored else None
        totals, input_preview = Totals.load(data.get("totals", {})), data.get("input_preview", "")
        clock, flags = Clock(**data.get("clock", {})), {name: data.get(name, False) for name in FLAGS}
        running = data.get("running", _NONE_RUNNING)
        return cls(totals, step, input_preview, clock=clock, running=running, **flags)


class Advance(NamedTuple):
    """What one entry changes."""

    tail: Tail
    changed: tuple[Step, ...] = ()
    """The rows of steps to write, oldest first."""
    unpaired: tuple[tuple[int, str | None], ...] = ()
    """The entry's results that answer no open call: their index and the ``tool_call_id`` that they name."""


def advance(
    tail: Tail, entry: Entry, *, texts: Sequence[ResultTexts] = (), facts: OutputFacts | None = None
) -> Advance:
    """The tail after one more live entry, and the episode rows that it changes.

    Args:
        texts: those of the entry's results, if some have been made already.
        facts: those of the entry's output, if they have been found already.
    """
    totals = tail.totals.with_entry(entry)
    clock, idle = tail.clock.after(entry, totals.idle, totals.steps)
    is_interrupted = tail.is_interrupted or is_interruption(entry.body)
    interruptions = totals.interruptions + (is_interrupted and not tail.is_interrupted)
    if idle != totals.idle or interruptions != totals.interruptions:
        totals = totals._replace(idle=idle, interruptions=interruptions)
    advanced = _advance(tail, totals, entry, texts, facts)
    is_interrupted = is_interrupted and not isinstance(entry.body, ModelOutput)
    running, step = tail.running, tail.step
    if step is not None and isinstance(entry.body, ToolResults):
        running = running_after(running, step.kind, step.target, len(step.tool_names), entry.body)
    after = advanced.tail._replace(clock=clock, is_interrupted=is_interrupted, running=running)
    return Advance(after, advanced.changed, advanced.unpaired)


def _advance(
    tail: Tail, totals: Totals, entry: Entry, texts: Sequence[ResultTexts], facts: OutputFacts | None
) -> Advance:
    """The tail without its clock, and the rows."""
    body = entry.body
    if isinstance(body, ModelOutput):
        return _begin(tail, totals, entry, body, facts or output_facts(body, entry.tokens))
    if isinstance(body, ModelInput):
        is_turn = begins_turn(body.channel, body.content)
        is_compacted = tail.is_compacted or marks_compaction("model_input", body.channel)
        adds_to_turn = tail.begins_turn and not is_turn
        shown = tail.input_preview if adds_to_turn else preview(typed_text(body.channel, body.content))
        return Advance(Tail(totals, tail.step, shown, tail.begins_turn or is_turn, is_compacted))
    if tail.step is not None and isinstance(body, (ToolResults, Review)):
        return _continue(tail, totals, tail.step, entry, texts)
    if isinstance(body, DebugLog) and marks_compaction("debug_log", body.category or ""):
        return Advance(tail._replace(totals=totals, is_compacted=True))
    return Advance(tail._replace(totals=totals))


def _begin(tail: Tail, totals: Totals, entry: Entry, output: ModelOutput, facts: OutputFacts) -> Advance:
    progress, started_at = Progress.begin(output), iso_text(entry.created_at)
    subject = facts.subject
    before = tail.step or _BEFORE_THE_FIRST
    kinds = before.kind_totals
    step = Step(
        anchor=entry.position,
        number=totals.steps,
        first_position=entry.position,
        last_position=entry.position,
        status=progress.status,
        pending=progress.pending,
        tool_names=facts.tool_names,
        input_preview=tail.input_preview,
        thought_preview=facts.thought_preview,
        call_preview=facts.call_preview,
        result_preview=facts.result_preview,
        tokens=entry.tokens,
        started_at=started_at,
        finished_at=None if progress.pending else started_at,
        total_tokens=totals.tokens,
        total_errors=totals.errors,
        kind=subject.kind if subject else "",
        target=wait_target(subject.target, facts.awaited_process, tail.running) if subject else "",
        total_likely_failures=before.total_likely_failures,
        turn=before.turn + tail.begins_turn,
        turn_first=totals.steps if tail.begins_turn else before.turn_first,
        compactions=before.compactions + tail.is_compacted,
        kind_totals={**kinds, subject.kind: kinds.get(subject.kind, 0) + 1} if subject else kinds,
        checks=facts.checks,
    )
    if tail.step is not None and tail.step.status == "in_flight":
        return Advance(Tail(totals, step), (tail.step._replace(status="abandoned"), step))
    return Advance(Tail(totals, step), (step,))


def _continue(tail: Tail, totals: Totals, step: Step, entry: Entry, texts: Sequence[ResultTexts]) -> Advance:
    changes: dict[str, Any] = {}
    unpaired: tuple[tuple[int, str | None], ...] = ()
    if isinstance(entry.body, ToolResults):
        changes, unpaired = _answer(step, entry.body, entry, texts)
    if step.status != "error" and changes.get("status") == "error":
        totals = totals._replace(errors=totals.errors + 1)
    changes["last_position"] = entry.position
    changes["tokens"] = step.tokens + entry.tokens
    changes["total_tokens"], changes["total_errors"] = totals.tokens, totals.errors
    changed = step._replace(**changes)
    after = Tail(totals, changed, tail.input_preview, tail.begins_turn, tail.is_compacted)
    return Advance(after, (changed,), unpaired)


def _answer(
    step: Step, body: ToolResults, entry: Entry, texts: Sequence[ResultTexts]
) -> tuple[dict[str, Any], tuple[tuple[int, str | None], ...]]:
    """The columns of a step's row that results change, and the results that answer no open call."""
    before = step.progress
    progress, answered = before.add_results(body.results)
    shown = step.result_preview
    changes: dict[str, Any] = {}
    texts = texts or [_NO_TEXTS] * len(answered)
    for (result, calls), known in zip(answered, texts, strict=True):
        if calls and (not shown or result.status != "success"):
            shown = result_preview(result, step.checks.get(calls[0]), known.previewed)
    if progress is not before:
        changes["pending"], changes["statuses"], changes["status"] = progress
        changes["result_preview"] = shown
        changes |= _failure(step, progress.status, answered, texts)
        changes["finished_at"] = None if progress.pending else iso_text(entry.created_at)
    unpaired = tuple([(n, result.tool_call_id) for n, (result, calls) in enumerate(answered) if not calls])
    if unpaired:
        changes["unpaired"] = step.unpaired + len(unpaired)
    return changes, unpaired


def _failure(
    step: Step, status: Status, answered: Sequence[PairedResult], texts: Sequence[ResultTexts]
) -> dict[str, Any]:
    """The columns about failures. A step that ended in an error is not a likely failure."""
    before = step.total_likely_failures - bool(step.likely_failure)
    reported = next(
        (
            (result, known)
            for (result, calls), known in zip(answered, texts, strict=True)
            if calls and result.status == "error"
        ),
        None,
    )
    if reported and "error" not in step.statuses:
        result, known = reported
        line = error_line(result, known.returned) if known.error_line is None else known.error_line
        return {"likely_failure": "", "error_line": line, "total_likely_failures": before}
    if step.likely_failure and status == "interrupted_by_human":
        return {"likely_failure": "", "error_line": "", "total_likely_failures": before}
    if step.error_line or status in ("error", "interrupted_by_human"):
        return {}
    for (result, calls), known in zip(answered, texts, strict=True):
        check = step.checks.get(calls[0]) if calls else None
        if check is None:
            continue
        if known.checked and known.checked[0] == check:
            finding = known.checked[1]
        else:
            finding = likely_failure(result, check, known.returned)
        if finding:
            new = {"likely_failure": finding.rule, "error_line": finding.line}
            return {**new, "total_likely_failures": before + 1}
    return {}
