"""The tokens and the cost of each turn of a run, as differences of running totals.

The figures of the overview say where the first turns begin, so the time does not depend on the run's length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_by_model
from historyapp.core.usage import NO_CALLS, ModelTotals, Usage
from historyapp.models import Episode
from historyapp.models.history import History
from historyapp.models.samples import totals_at
from historyapp.models.turns import first_step
from historyapp.services.figures.run_figures import CountedRun
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class CallCosts:
    """The model calls of some steps."""

    usage: Usage
    without_usage: int
    """The number of steps whose model call has not reported its tokens."""
    billed: int
    """The number of model calls that reported their tokens or their cost."""
    money: int | None
    """Their cost in millionths of a dollar; None if that of one of their models is unknown, see
    :func:`money_by_model`."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """One turn, the steps before the first turn, or all later turns together."""

    turn: int
    """0: the steps before the first turn."""
    last_turn: int
    first: int
    """The first step."""
    last: int
    input_preview: str
    """Empty for several turns."""
    calls: CallCosts

    @property
    def has_usage(self) -> bool:
        return bool(self.calls.usage.input or self.calls.usage.output)


def turn_costs(history: History, counted: CountedRun) -> list[TurnCost]:
    """The turns of a run. Together they have its model calls. Empty if entries of an earlier version have no
    totals by model, or if no model call has reported its usage."""
    newest = history.newest
    if newest is None or not history.tail.totals.models:
        return []
    starts, is_rest = _starts(history, counted)
    ends = [*(start - 1 for start in starts[1:]), history.steps]
    numbers = sorted({*starts, *ends[:-1]})
    rows = {row.number: row for row in Episode.objects.with_numbers(history.lineage, numbers)}
    if rows.keys() != set(numbers):
        return []
    totals = [*_totals_at_outputs(history, [rows[end] for end in ends[:-1]]), history.tail.totals]
    if not all(map(_are_complete, totals)):
        return []
    turns: list[TurnCost] = []
    begins_with_turn = rows[starts[0]].turn > 0
    for place, (before, after) in enumerate(pairwise([Totals(), *totals])):
        turn, first = place + begins_with_turn, starts[place]
        last_turn = newest.turn if is_rest and ends[place] == history.steps else turn
        is_named = turn == last_turn > 0 and history.visible.inputs
        preview = rows[first].input_preview if is_named else ""
        calls = _calls_between(before, after, history)
        turns.append(TurnCost(turn, last_turn, first, ends[place], preview, calls))
    return turns


def _starts(history: History, counted: CountedRun) -> tuple[list[int], bool]:
    """The first steps of turns, beginning with step 1, and whether the last one stands for several turns."""
    turns = counted.figures.turns
    starts = sorted({1, *turns})
    if counted.is_complete and counted.figures.turn_count == len(turns):
        return starts, False
    following = first_step(history, len(turns) + 1)
    return (starts, False) if following is None else (sorted({*starts, following}), True)


def _totals_at_outputs(history: History, rows: Sequence[Episode]) -> list[Totals]:
    """The running totals up to and including the outputs of steps."""
    # The row of a step that a fork or a rewind cut is in another session than its output.
    positions = [row.first_position for row in rows]
    places = [(history.lineage.session_at(position) or "", position) for position in positions]
    totals = totals_at(places)
    return [totals[place] for place in places]


def _are_complete(totals: Totals) -> bool:
    """Whether the totals by model have all tokens. Entries of earlier versions lack them."""
    return totals.input_tokens == sum(model.input for model in totals.models.values())


def _calls_between(before: Totals, after: Totals, history: History) -> CallCosts:
    """The model calls of the steps after ``before`` and up to ``after``."""
    models: dict[str, ModelTotals] = {}
    for name, now in after.models.items():
        then = before.models.get(name, NO_CALLS)
        if now.calls > then.calls:
            models[name] = ModelTotals(*(end - begin for begin, end in zip(then, now, strict=True)))
    used = [model for model in models.values() if model.input or model.output]
    part, run, default_model = Totals(models=models), history.tail.totals, history.session.model
    priced = [cost for _, cost, _ in money_by_model(part, default_model, price_list(), run)]
    known = [cost for cost in priced if cost is not None]
    return CallCosts(
        usage=Usage(*map(sum, zip(Usage(), *(model.usage for model in used), strict=True))),
        without_usage=max(0, after.steps - before.steps - sum(model.calls for model in used)),
        billed=sum(model.calls for model in models.values()),
        money=sum(known) if len(known) == len(priced) else None,
    )
