"""Pairs the steps of two runs: equal steps, different steps, and steps that only one run has.

Steps are aligned by their rows, which contain the first 200 characters of the tool calls and of the results.
If the rows of a returned pair are equal, the complete tool calls and results are compared.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from django.utils.functional import cached_property

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
MAX_COMPARED_TOKENS = 200_000
"""The maximum number of tokens of the steps that one page compares completely, which takes about 100 ms."""


class PairPlace(NamedTuple):
    """The step numbers at which the pairs continue. A number beyond the last step means that the run has no
    more steps."""

    a: int
    b: int


class RowPair(NamedTuple):
    """The rows of a pair of steps, or of a step that only one run has."""

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
    duration: timedelta | None
    """None if one step has no times."""


@dataclass(frozen=True, slots=True)
class StepPair:
    """A pair of steps with its figures."""

    a: StepAccount | None
    b: StepAccount | None
    differs: tuple[Difference, ...]
    is_exact: bool
    """Whether tool calls and results were compared completely, not only their first 200 characters."""

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
        duration_a, duration_b = _duration(self.a), _duration(self.b)
        duration = None if duration_a is None or duration_b is None else duration_b - duration_a
        return PairDelta(self.b.row.tokens - self.a.row.tokens, money, duration)


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
        """The place of each pair, and the place after the last pair."""
        places = [self.start]
        for pair in self.pairs:
            place = places[-1]
            places.append(PairPlace(place.a + (pair.a is not None), place.b + (pair.b is not None)))
        return places

    def page(self, first: int, limit: int) -> tuple[list[StepPair], PairPlace | None]:
        """At most ``limit`` pairs from index ``first`` on, and the place of the next pair, or None."""
        selected = self.pairs[first : first + limit]
        start, end = self.places[first], self.places[first + len(selected)]
        accounts_a = {account.row.number: account for account in _accounts(self.a, start.a, end.a)}
        accounts_b = {account.row.number: account for account in _accounts(self.b, start.b, end.b)}
        pairs = []
        for pair in selected:
            a = accounts_a[pair.a.number] if pair.a else None
            b = accounts_b[pair.b.number] if pair.b else None
            pairs.append(StepPair(a, b, pair.differs, False))
        is_last = first + len(selected) == len(self.pairs) and self.is_complete
        return _compare_recorded(self.a, self.b, pairs), None if is_last else end


def _duration(account: StepAccount) -> timedelta | None:
    started, finished = known_time(account.row.started_at), known_time(account.row.finished_at)
    return finished - started if started and finished else None


def align_steps(a: History, b: History, start: PairPlace) -> AlignedSteps:
    """Aligns the steps of two runs from a place on. Reads rows, but no bodies."""
    steps_a, steps_b = _signatures(a, start.a), _signatures(b, start.b)
    aligned = align([_keys(step) for step in steps_a], [_keys(step) for step in steps_b])
    pairs = [
        RowPair(None if index_a is None else steps_a[index_a], None if index_b is None else steps_b[index_b])
        for index_a, index_b in aligned
    ]
    is_complete = start.a + len(steps_a) > a.steps and start.b + len(steps_b) > b.steps
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
    """The keys for aligning steps, strictest first: tool and call; tool and target; tool."""
    strictest = (step.tool, step.call_preview or step.result_preview)
    return strictest, (step.tool, step.target), step.tool


def _accounts(history: History, first: int, end: int) -> list[StepAccount]:
    return step_accounts(history, first, end - 1) if first < end else []


def _compare_recorded(a: History, b: History, pairs: Sequence[StepPair]) -> list[StepPair]:
    """Compares complete tool calls and results if the rows have the same tool calls, up to
    :data:`MAX_COMPARED_TOKENS`."""
    tokens, numbers_a, numbers_b = 0, list[int](), list[int]()
    for pair in pairs:
        tokens += sum(side.row.tokens for side in (pair.a, pair.b) if side)
        if tokens > MAX_COMPARED_TOKENS:
            break
        if pair.a and pair.b and not pair.is_divergent:
            numbers_a.append(pair.a.row.number)
            numbers_b.append(pair.b.row.number)
    if not numbers_a:
        return [replace(pair, is_exact=pair.is_divergent) for pair in pairs]
    steps_a = {step.number: step for step in a.episodes(numbers_a[0], numbers_a[-1])}
    steps_b = {step.number: step for step in b.episodes(numbers_b[0], numbers_b[-1])}
    compared: list[StepPair] = []
    for pair in pairs:
        differs, is_exact = pair.differs, pair.is_divergent
        if pair.a and pair.b and not is_exact and pair.a.row.number <= numbers_a[-1]:
            recorded = steps_a[pair.a.row.number], steps_b[pair.b.row.number]
            differs, is_exact = _recorded_differences(*recorded, pair.differs), True
        compared.append(replace(pair, differs=differs, is_exact=is_exact))
    return compared


def _recorded_differences(a: Episode, b: Episode, in_rows: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """The differences of two steps, in order. Those of inputs and statuses are taken from the rows."""
    differences: list[Difference] = ["input"] if "input" in in_rows else []
    if _actions(a) != _actions(b):
        differences.append("call" if a.action else "answer")
    if a.action and _results(a) != _results(b):
        differences.append("result")
    return (*differences, "status") if "status" in in_rows else tuple(differences)


def _actions(step: Episode) -> list[Any]:
    """The tools and arguments, without the ids, which differ in every run; for an answer, its text."""
    output = step.output
    tool_calls = (output.use_tool,) if output.use_tool else output.tool_calls
    return [(tool_call.name, tool_call.arguments) for tool_call in tool_calls] or [output.text]


def _results(step: Episode) -> list[Any]:
    """The results, in the order of the tool calls."""
    return [
        result.model_copy(update={"tool_call_id": None, "tool_name": None}) for result in step.turn.results
    ]
