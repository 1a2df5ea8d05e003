"""What the takes of a run cost. The run's own figures do not include them."""

from collections.abc import Sequence
from dataclasses import dataclass

from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of, totals_after
from historyapp.core.usage import NO_CALLS, ModelTotals
from historyapp.models.history import History
from historyapp.models.takes import cut_totals, takes
from historyapp.services.prices import price_list


@dataclass(frozen=True, slots=True)
class TakeCosts:
    steps: int
    """The steps of all takes, also of takes of takes; at least 1."""
    after_steps: list[int]
    """The steps after which the newest takes were cut off."""
    micros: int
    """Their cost in millionths of a dollar, as far as it is known."""
    is_partial: bool
    """Whether the cost leaves out model calls without a known price, output tokens that were not reported, or
    takes before the newest rewinds."""


def take_costs(history: History) -> TakeCosts | None:
    """The cost of all that rewinds cut off from a history; None if these are no steps."""
    before, after, is_complete = cut_totals(history)
    totals = totals_after(_added(before), _added(after))
    if totals.steps <= 0:
        return None
    money = money_of(totals, history.session.model, price_list())
    return TakeCosts(
        steps=totals.steps,
        after_steps=sorted({take.after_step for take in takes(history) if take.steps and take.after_step}),
        micros=max(0, money.micros),  # of some rewinds, the difference may be negative
        is_partial=not is_complete or not money.is_known or money.is_minimum,
    )


def _added(parts: Sequence[Totals]) -> Totals:
    """The sums of the steps, the cost and the usage of each model."""
    models = dict[str, ModelTotals]()
    for part in parts:
        for name, used in part.models.items():
            models[name] = ModelTotals(*map(sum, zip(models.get(name, NO_CALLS), used, strict=True)))
    steps, cost = sum(part.steps for part in parts), sum(part.cost for part in parts)
    return Totals(steps=steps, cost=cost, models=models)
