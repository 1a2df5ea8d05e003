"""Compares two runs: sessions, forks, takes, or one session at two positions.

Forks and takes share the beginning of their lineage, which is known without reading any entry. The steps
after it are aligned, see :mod:`historyapp.services.step_pairs`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from historyapp.core.dates import known_time
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.projection import Totals
from historyapp.core.run_costs import RunMoney, RunTokens, money_of, tokens_of
from historyapp.core.usage import ModelTotals
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.models.samples import count_steps
from historyapp.services.prices import price_list
from historyapp.services.step_pairs import AlignedSteps, PairPlace, RowPair, StepPair, align_steps

FORM = "the id of a session, ID@POSITION for a session as it was, or ID/takes/POSITION for a take"
_REFERENCE = re.compile(
    r"(?P<id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"(?:@(?P<as_of>[0-9]{1,9})|/takes/(?P<take>[0-9]{1,9}))?"
)


class RunReference(NamedTuple):
    """One side of a comparison: a session, now or as of a position, or one of its takes."""

    session: UUID
    as_of: int | None = None
    take: int | None = None
    """The position of the rewind that cut the take off."""

    def __str__(self) -> str:
        if self.take is not None:
            return f"{self.session}/takes/{self.take}"
        return str(self.session) if self.as_of is None else f"{self.session}@{self.as_of}"


@dataclass(frozen=True, slots=True)
class RunPart:
    """The figures of a part of a run."""

    steps: int
    errors: int
    tokens: RunTokens
    money: RunMoney
    took: timedelta | None
    """The time from the first step to the end of the last one, without the pause before a fork; None without
    times."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison, with its figures."""

    reference: RunReference
    history: History
    whole: RunPart
    apart: RunPart
    """The figures of the steps after the common part."""


@dataclass(frozen=True, slots=True)
class CommonPart:
    """The entries that both runs share at their beginning."""

    position: int
    """The position of the last shared entry; 0 if there is none."""
    steps: int
    """The number of complete steps among them."""
    totals: Totals


class PairCounts(NamedTuple):
    """The number of pairs of each kind. Steps of the common part are not counted."""

    same: int
    different_call: int
    """The tool call or the answer differs."""
    different_result: int
    """The tool call is the same; the input, result or status differs."""
    only_a: int
    only_b: int


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two runs."""

    a: ComparedRun
    b: ComparedRun
    common: CommonPart
    steps: AlignedSteps
    """The first steps after the common part."""
    counts: PairCounts
    """The counts of these pairs."""

    def first_divergence(self, page: list[StepPair]) -> int | None:
        """The index of the first pair whose calls or answers differ, or that only one run has; or None.

        Args:
            page: the first pairs, compared by their complete calls and results.
        """
        pairs = chain[RowPair | StepPair](page, self.steps.pairs[len(page) :])
        return next((n for n, pair in enumerate(pairs) if pair.is_divergent), None)

    def first_difference(self, page: list[StepPair]) -> int | None:
        """The index of the first pair with any difference, or None."""
        pairs = chain[RowPair | StepPair](page, self.steps.pairs[len(page) :])
        return next((n for n, pair in enumerate(pairs) if not pair.is_same), None)

    def steps_at(self, pair: int) -> tuple[int | None, int | None]:
        """The step numbers at which the runs continue from the pair with this index; None for a run that has
        ended."""
        place = self.steps.places[pair]
        return (
            place.a if place.a <= self.a.history.steps else None,
            place.b if place.b <= self.b.history.steps else None,
        )


def parse_reference(name: str, text: str) -> RunReference:
    """Parses the reference of one side of a comparison.

    Args:
        name: the parameter's name, for the error.

    Raises:
        Invalid: when the text has another form.
    """
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        problem = f"{name} is {text[:100]!r}" if text.strip() else f"{name} is missing"
        raise Invalid(f"{problem}. Use {FORM}.")
    as_of, take = match["as_of"], match["take"]
    return RunReference(UUID(match["id"]), int(as_of) if as_of else None, int(take) if take else None)


def read_run(reference: RunReference, find: Callable[[UUID], Session]) -> History:
    """The history that a reference names.

    Args:
        find: returns the session, or raises ``NotFound`` if the reader may not see it.

    Raises:
        NotFound: when there is no such session or take, or the take has been restored.
        Invalid: when the position lies beyond the head.
    """
    session = find(reference.session)
    if reference.take is None:
        return History(session, reference.as_of)
    position = reference.take
    if not session.rewinds().filter(position=position).exists():
        raise NotFound(f"Session {session.pk} has no take at position {position}: no rewind is there.")
    history = History(session, position - 1)
    if not history.lineage.branch_off(session.lineage()).newest:
        raise NotFound(
            f"The take at position {position} was restored and is live again. "
            f"Compare {session.pk}@{position - 1} instead."
        )
    return history


def compare_runs(a: RunReference, b: RunReference, find: Callable[[UUID], Session]) -> RunComparison:
    """Compares two runs. The cost does not depend on their length.

    Raises:
        NotFound, Invalid: see :func:`read_run`. Invalid also if both references are the same.
    """
    sides = read_run(a, find), read_run(b, find)
    states = [(side.session.pk, side.session.head if side.as_of is None else side.as_of) for side in sides]
    if states[0] == states[1]:
        raise Invalid("a and b are the same run at the same position. Choose two different runs.")
    common = common_part(*sides)
    start = PairPlace(common.steps + 1, common.steps + 1)
    steps = align_steps(*sides, start)
    of_a, of_b = (
        ComparedRun(reference, history, *_figures(history, common))
        for reference, history in zip((a, b), sides, strict=True)
    )
    only_a = sum(pair.b is None for pair in steps.pairs)
    only_b = sum(pair.a is None for pair in steps.pairs)
    same = sum(pair.is_same for pair in steps.pairs)
    calls = sum(pair.is_divergent for pair in steps.pairs) - only_a - only_b
    results = len(steps.pairs) - only_a - only_b - same - calls
    return RunComparison(of_a, of_b, common, steps, PairCounts(same, calls, results, only_a, only_b))


def common_part(a: History, b: History) -> CommonPart:
    """The entries that two runs share at their beginning, computed from their lineages."""
    none = CommonPart(0, 0, Totals())
    if set(a.lineage.owners).isdisjoint(b.lineage.owners):
        return none
    branch = b.lineage.branch_off(a.lineage)
    shared = b.lineage.cut(branch.newest[0].first - 1) if branch.newest else b.lineage
    if not shared.newest:
        return none
    steps = count_steps(shared)
    is_complete = all(
        side.row(steps).last_position <= shared.last for side in (a, b) if 1 <= steps <= side.steps
    )
    newest = Entry.objects.newest(shared)
    totals = Totals.load(newest.totals) if newest else Totals()
    return CommonPart(shared.last, steps if is_complete else steps - 1, totals)


def _figures(history: History, common: CommonPart) -> tuple[RunPart, RunPart]:
    """The figures of the whole run, and of the steps after the common part."""
    first = common.steps + 1
    history.load({1, first, history.steps})
    whole, shared = history.tail.totals, common.totals
    apart = whole._replace(
        steps=history.steps - common.steps,
        errors=whole.errors - shared.errors,
        tokens=whole.tokens - shared.tokens,
        input_tokens=whole.input_tokens - shared.input_tokens,
        output_tokens=whole.output_tokens - shared.output_tokens,
        cost=whole.cost - shared.cost,
        models=_later_use(whole, shared),
    )
    whole_part, apart_part = _figures_of(history, whole, 1), _figures_of(history, apart, first)
    if 0 < common.steps < history.steps and _is_at_fork(history, common.steps):
        # A fork may begin long after the steps that it shares. The time between them belongs to no run.
        before = _time_of(history, 1, common.steps)
        took = before + apart_part.took if before is not None and apart_part.took is not None else None
        whole_part = replace(whole_part, took=took)
    return whole_part, apart_part


def _later_use(whole: Totals, shared: Totals) -> dict[str, ModelTotals]:
    """The usage of each model after the common part."""
    later = dict[str, ModelTotals]()
    for model, used in whole.models.items():
        before = shared.models.get(model, ModelTotals())
        left = ModelTotals(*(now - then for now, then in zip(used, before, strict=True)))
        if any(left):
            later[model] = left
    return later


def _figures_of(history: History, totals: Totals, first: int) -> RunPart:
    took = _time_of(history, first, history.steps) if first <= history.steps else None
    money = money_of(totals, history.session.model, price_list())
    return RunPart(totals.steps, totals.errors, tokens_of(totals), money, took)


def _is_at_fork(history: History, step: int) -> bool:
    """Whether the next step was recorded in another session, which is a fork."""
    rows = history.load({step, step + 1})
    owners = [
        span.session
        for row in (rows[step], rows[step + 1])
        for span in history.lineage.between(row.first_position, row.first_position)
    ]
    return len(set(owners)) > 1


def _time_of(history: History, first: int, last: int) -> timedelta | None:
    rows = history.load({first, last})
    start = known_time(rows[first].started_at)
    end = known_time(rows[last].finished_at or rows[last].started_at)
    return end - start if start and end and end >= start else None
