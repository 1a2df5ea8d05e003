"""Pairs the steps of two runs: equal steps, different steps, and steps that only one run has.

Steps are aligned by their rows, which contain the first 200 characters of the call and of the result. If the
rows of a returned pair look the same, the complete calls and results are compared.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple

from historyapp.core.alignment import MAX_ALIGNED, align
from historyapp.core.dates import known_time
from historyapp.core.episodes import Episode
from historyapp.models.episodes import Episode as EpisodeRow
from historyapp.models.episodes import StepSignature
from historyapp.models.history import History
from historyapp.services.ledger import StepAccount, step_accounts

Difference = Literal["input", "call", "answer", "result", "status"]
DIVERGENT: tuple[Difference, ...] = ("call", "answer")
"""The differences in what the agent did. The others are differences in what it received."""
MAX_READ = 200_000
"""The maximum number of tokens that one page compares completely, which takes up to about 100 ms."""


class PairPlace(NamedTuple):
    """The step numbers at which the pairs continue. A number beyond the last step means that none is left."""

    a: int
    b: int


class RowPair(NamedTuple):
    """A pair of steps, or a step that only one run has, by their rows."""

    a: StepSignature | None
    b: StepSignature | None

    @property
    def differs(self) -> tuple[Difference, ...]:
        """How the rows differ; empty if only one run has the step."""
        if self.a is None or self.b is None:
            return ()
        differences: list[Difference] = []
        if self.a.input_preview != self.b.input_preview:
            differences.append("input")
        if _keys(self.a)[0] != _keys(self.b)[0]:
            differences.append("call" if self.a.tool or self.b.tool else "answer")
        if self.a.tool and self.b.tool and self.a.result_preview != self.b.result_preview:
            differences.append("result")
        if self.a.status != self.b.status:
            differences.append("status")
        return tuple(differences)

    @property
    def is_same(self) -> bool:
        return self.a is not None and self.b is not None and not self.differs

    @property
    def is_divergent(self) -> bool:
        """Whether the tool calls or answers differ, or only one run has the step."""
        return self.a is None or self.b is None or not set(self.differs).isdisjoint(DIVERGENT)


class PairDelta(NamedTuple):
    """The figures of B's step minus those of A's."""

    tokens: int
    money: int | None
    """In millionths of a dollar; None if the cost of one step is unknown."""
    took: timedelta | None
    """None if one step has no times."""


@dataclass(frozen=True, slots=True)
class StepPair:
    """A pair of steps with its figures."""

    a: StepAccount | None
    b: StepAccount | None
    differs: tuple[Difference, ...]
    is_exact: bool
    """Whether calls and results were compared completely, or only their first 200 characters."""

    @property
    def is_same(self) -> bool:
        return self.change == "same"

    @property
    def change(self) -> Literal["same", "different", "only_a", "only_b"]:
        if self.a is None:
            return "only_b"
        if self.b is None:
            return "only_a"
        return "different" if self.differs else "same"

    @property
    def is_divergent(self) -> bool:
        """Whether the tool calls or answers differ, or only one run has the step."""
        return self.a is None or self.b is None or not set(self.differs).isdisjoint(DIVERGENT)

    @property
    def delta(self) -> PairDelta | None:
        """B's figures minus A's; None if only one run has the step."""
        if self.a is None or self.b is None:
            return None
        money = None if None in (self.a.money, self.b.money) else (self.b.money or 0) - (self.a.money or 0)
        took_a, took_b = _took(self.a), _took(self.b)
        took = None if took_a is None or took_b is None else took_b - took_a
        return PairDelta(self.b.row.tokens - self.a.row.tokens, money, took)


@dataclass(frozen=True)
class AlignedSteps:
    """The aligned steps of two runs from a place on, at most :data:`MAX_ALIGNED` of each."""

    a: History
    b: History
    start: PairPlace
    pairs: list[RowPair]
    is_complete: bool
    """Whether both runs end here."""

    @cached_property
    def places(self) -> list[PairPlace]:
        """Where each pair begins, and the place after the last pair."""
        places = [self.start]
        for pair in self.pairs:
            at = places[-1]
            places.append(PairPlace(at.a + (pair.a is not None), at.b + (pair.b is not None)))
        return places

    def page(self, first: int, limit: int) -> tuple[list[StepPair], PairPlace | None]:
        """At most ``limit`` pairs from index ``first`` on, and the place of the next pair, or None."""
        selected = self.pairs[first : first + limit]
        start, end = self.places[first], self.places[first + len(selected)]
        a = {one.row.number: one for one in _accounts(self.a, start.a, end.a)}
        b = {one.row.number: one for one in _accounts(self.b, start.b, end.b)}
        pairs = [
            StepPair(
                a[pair.a.number] if pair.a else None, b[pair.b.number] if pair.b else None, differs, False
            )
            for pair, differs in ((pair, pair.differs) for pair in selected)
        ]
        is_last = first + len(selected) == len(self.pairs) and self.is_complete
        return _compare_recorded(self.a, self.b, pairs), None if is_last else end


def _took(account: StepAccount) -> timedelta | None:
    started, finished = known_time(account.row.started_at), known_time(account.row.finished_at)
    return finished - started if started and finished else None


def align_steps(a: History, b: History, start: PairPlace) -> AlignedSteps:
    """Aligns the steps of two runs from a place on. Reads rows, but no bodies."""
    sides = [_signatures(history, first) for history, first in ((a, start.a), (b, start.b))]
    of_a, of_b = sides
    aligned = align(*[[_keys(step) for step in side] for side in sides])
    pairs = [
        RowPair(None if in_a is None else of_a[in_a], None if in_b is None else of_b[in_b])
        for in_a, in_b in aligned
    ]
    is_complete = start.a + len(of_a) > a.steps and start.b + len(of_b) > b.steps
    return AlignedSteps(a, b, start, pairs, is_complete)


def _signatures(history: History, first: int) -> list[StepSignature]:
    last = min(history.steps, first + MAX_ALIGNED - 1)
    if first > last:
        return []
    rows = EpisodeRow.objects.signatures(history.lineage, first, last)
    newest = history.newest_shown
    if newest and last == history.steps:
        columns = [getattr(newest, name) for name in StepSignature._fields]
        rows = [*(row for row in rows if row.number < last), StepSignature(*columns)]
    return rows


def _keys(step: StepSignature) -> tuple[Hashable, ...]:
    """The keys for aligning steps: the complete call, its tool and subject, and its tool alone."""
    strongest = (step.tool, step.call_preview or step.result_preview)
    return strongest, (step.tool, step.target), step.tool


def _accounts(history: History, first: int, end: int) -> list[StepAccount]:
    return step_accounts(history, first, end - 1) if first < end else []


def _compare_recorded(a: History, b: History, pairs: Sequence[StepPair]) -> list[StepPair]:
    """Compares complete calls and results if the rows show the same call, up to :data:`MAX_READ` tokens."""
    read, of_a, of_b = 0, list[int](), list[int]()
    for pair in pairs:
        read += sum(side.row.tokens for side in (pair.a, pair.b) if side)
        if read > MAX_READ:
            break
        if pair.a and pair.b and not pair.is_divergent:
            of_a.append(pair.a.row.number)
            of_b.append(pair.b.row.number)
    if not of_a:
        return [replace(pair, is_exact=pair.is_divergent) for pair in pairs]
    steps_a = {step.number: step for step in a.episodes(of_a[0], of_a[-1])}
    steps_b = {step.number: step for step in b.episodes(of_b[0], of_b[-1])}
    compared: list[StepPair] = []
    for pair in pairs:
        differs, is_exact = pair.differs, pair.is_divergent
        if pair.a and pair.b and not is_exact and pair.a.row.number <= of_a[-1]:
            recorded = steps_a[pair.a.row.number], steps_b[pair.b.row.number]
            differs, is_exact = _recorded_differences(*recorded, pair.differs), True
        compared.append(replace(pair, differs=differs, is_exact=is_exact))
    return compared


def _recorded_differences(a: Episode, b: Episode, seen: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """The differences of two steps, in order. Inputs and statuses are compared by the rows."""
    differences: list[Difference] = ["input"] if "input" in seen else []
    if _calls(a) != _calls(b):
        differences.append("call" if a.action else "answer")
    if a.action and _results(a) != _results(b):
        differences.append("result")
    return (*differences, "status") if "status" in seen else tuple(differences)


def _calls(step: Episode) -> list[Any]:
    """The tools and arguments without the ids, which differ in every run; for an answer its text."""
    output = step.output
    calls = (output.use_tool,) if output.use_tool else output.tool_calls
    return [(call.name, call.arguments) for call in calls] or [output.text]


def _results(step: Episode) -> list[Any]:
    """The results, in the order of the calls."""
    return [
        result.model_copy(update={"tool_call_id": None, "tool_name": None}) for result in step.turn.results
    ]
