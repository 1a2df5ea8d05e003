"""What the takes of a run cost. The run's own figures do not include them."""

from collections.abc import Sequence
from dataclasses import dataclass

from historyapp.core.run_costs import money_of, totals_after
from historyapp.models.history import History
from historyapp.models.takes import Take, cut_totals, takes
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


def take_costs(history: History, cut_off: Sequence[Take] | None = None) -> TakeCosts | None:
    """The cost of all that rewinds cut off from a history; None if these are no steps.

    Args:
        cut_off: the takes of the history, if they have been read.
    """
    before, after, is_complete = cut_totals(history)
    totals = totals_after(before, after)
    if totals.steps <= 0:
        return None
    money = money_of(totals, history.session.model, price_list())
    cut_off = takes(history) if cut_off is None else cut_off
    return TakeCosts(
        steps=totals.steps,
        after_steps=sorted({take.after_step for take in cut_off if take.steps and take.after_step}),
        micros=max(0, money.micros),  # of some rewinds, the difference may be negative
        is_partial=not is_complete or not money.is_known or money.is_minimum,
    )
