"""Compares two runs: sessions, forks, takes, or one session at two positions.

Forks and takes share the beginning of their lineage, which is known without reading any entry. The steps
after it are aligned, see :mod:`historyapp.services.step_pairs`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from historyapp.core.dates import known_time
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.projection import Totals
from historyapp.core.run_costs import RunMoney, RunTokens, money_of, tokens_of, totals_after
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.models.samples import count_steps
from historyapp.services.fork_pauses import fork_pauses
from historyapp.services.list_columns import run_span
from historyapp.services.prices import price_list
from historyapp.services.step_pairs import AlignedSteps, PairPlace, RowPair, StepPair, align_steps

REFERENCE_FORMAT = "the id of a session, ID@POSITION for a session as it was, or ID/takes/POSITION for a take"
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
    likely_failures: int
    """The steps with a likely failure."""
    tokens: RunTokens
    money: RunMoney
    duration: timedelta | None
    """Of the whole run as in lists, of a part from the start of its first step to the end of the last one;
    without the pause before a fork. None if the entries have no times."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison, with its figures."""

    reference: RunReference
    history: History
    whole: RunPart
    after_common: RunPart
    """The figures of the steps after the common part."""


@dataclass(frozen=True, slots=True)
class CommonPart:
    """The entries that both runs share at their beginning."""

    position: int
    """The position of the last shared entry; 0 if there is none."""
    steps: int
    """The number of complete steps in the common part."""
    totals: Totals


class PairCounts(NamedTuple):
    """The number of pairs of each kind. Steps of the common part are not counted."""

    same: int
    different_call: int
    """The tool calls or the answers differ."""
    different_result: int
    """The tool calls are the same; the inputs, results or statuses differ."""
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

    def counts(self, page: list[StepPair]) -> PairCounts:
        """The counts of the pairs.

        Args:
            page: the first pairs, compared by their complete tool calls and results. The others are compared
                by what the lists of steps show of them.
        """
        pairs = list(self._pairs(page))
        only_a = sum(pair.b is None for pair in pairs)
        only_b = sum(pair.a is None for pair in pairs)
        same = sum(pair.is_same for pair in pairs)
        different_calls = sum(pair.is_divergent for pair in pairs) - only_a - only_b
        different_results = len(pairs) - only_a - only_b - same - different_calls
        return PairCounts(same, different_calls, different_results, only_a, only_b)

    def first_divergence(self, page: list[StepPair]) -> int | None:
        """The index of the first pair whose tool calls or answers differ, or that only one run has; or None.

        Args:
            page: the first pairs, compared by their complete tool calls and results.
        """
        return next((index for index, pair in enumerate(self._pairs(page)) if pair.is_divergent), None)

    def first_difference(self, page: list[StepPair]) -> int | None:
        """The index of the first pair with any difference, or None."""
        return next((index for index, pair in enumerate(self._pairs(page)) if not pair.is_same), None)

    def _pairs(self, page: list[StepPair]) -> Iterable[RowPair | StepPair]:
        return chain[RowPair | StepPair](page, self.steps.pairs[len(page) :])

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
        Invalid: when the text does not have this format.
    """
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        problem = f"{name} is {text[:100]!r}" if text.strip() else f"{name} is missing"
        raise Invalid(f"{problem}. Use {REFERENCE_FORMAT}.")
    as_of, take = match["as_of"], match["take"]
    return RunReference(UUID(match["id"]), int(as_of) if as_of else None, int(take) if take else None)


def read_run(reference: RunReference, find: Callable[[UUID], Session]) -> History:
    """The history that a reference names.

    Args:
        find: returns the session; raises ``NotFound`` if there is none or the reader may not see it.

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
        raise Invalid("`a` and `b` are the same run at the same position. Choose two different runs.")
    common = common_part(*sides)
    start = PairPlace(common.steps + 1, common.steps + 1)
    steps = align_steps(*sides, start)
    run_a, run_b = (
        ComparedRun(reference, history, *_parts(history, common))
        for reference, history in zip((a, b), sides, strict=True)
    )
    return RunComparison(run_a, run_b, common, steps)


def common_part(a: History, b: History) -> CommonPart:
    """The entries that two runs share at their beginning, computed from their lineages."""
    nothing = CommonPart(0, 0, Totals())
    if set(a.lineage.owners).isdisjoint(b.lineage.owners):
        return nothing
    branch = b.lineage.branch_off(a.lineage)
    shared = b.lineage.cut(branch.newest[0].first - 1) if branch.newest else b.lineage
    if not shared.newest:
        return nothing
    steps = count_steps(shared)
    is_complete = all(
        side.row(steps).last_position <= shared.last for side in (a, b) if 1 <= steps <= side.steps
    )
    newest = Entry.objects.defer("body", "metadata").newest(shared)
    totals = Totals.load(newest.totals) if newest else Totals()
    return CommonPart(shared.last, steps if is_complete else steps - 1, totals)


def _parts(history: History, common: CommonPart) -> tuple[RunPart, RunPart]:
    """The figures of the whole run, and of the steps after the common part."""
    first = common.steps + 1
    history.load({1, common.steps, first, history.steps})
    whole = history.tail.totals
    after_common = totals_after(whole, common.totals)._replace(steps=history.steps - common.steps)
    return _part_from(history, whole, 1), _part_from(history, after_common, first)


def _part_from(history: History, totals: Totals, first: int) -> RunPart:
    duration = _duration(history, first) if first <= history.steps else None
    money = money_of(totals, history.session.model, price_list())
    likely = history.row(history.steps).total_likely_failures if first <= history.steps else 0
    if 1 < first <= history.steps:
        likely -= history.row(first - 1).total_likely_failures
    return RunPart(totals.steps, totals.errors, likely, tokens_of(totals), money, duration)


def _duration(history: History, first: int) -> timedelta | None:
    """The time from a step on; from the first one on that of the whole run, as in lists."""
    if first == 1:
        span, after = run_span(history.session, history.lineage), 0
        start, end, before = span or (None, None, 0)
        idle = history.tail.totals.idle - before
    else:
        rows = history.load({first, history.steps})
        after, newest = rows[first].anchor, rows[history.steps]
        start, end = known_time(rows[first].started_at), known_time(newest.finished_at or newest.started_at)
        idle = _idle_at(history, newest.last_position) - _idle_at(history, rows[first].first_position)
    pauses = fork_pauses(history, after)
    if start is None or end is None or pauses is None or end < start:
        return None
    return max(timedelta(0), end - start - pauses - timedelta(milliseconds=idle))


def _idle_at(history: History, position: int) -> int:
    """The idle milliseconds of a run up to a position. Most runs have none."""
    if not history.tail.totals.idle:
        return 0
    newest = Entry.objects.defer("body", "metadata").newest(history.lineage.cut(position))
    return newest.totals.get("idle", 0) if newest else 0
