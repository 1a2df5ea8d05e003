"""What the takes of a run cost. The run's own figures do not include them."""

from dataclasses import dataclass

from historyapp.core.run_costs import money_of
from historyapp.models.history import History
from historyapp.models.takes import NEWEST, Take, ends_of_takes, takes
from historyapp.services.prices import price_list
from historyapp.services.run_comparisons import totals_after


@dataclass(frozen=True, slots=True)
class TakeCosts:
    takes: list[Take]
    """The newest takes that have steps, oldest rewind first; never empty."""
    micros: int
    """Their cost in millionths of a dollar, as far as it is known."""
    is_known: bool
    """Whether the cost of any model call is known."""
    is_complete: bool
    """Whether these are all takes, and the prices of all their models are known."""

    @property
    def after_steps(self) -> list[int]:
        """The steps after which they were cut off."""
        return sorted({take.after_step for take in self.takes if take.after_step})


def take_costs(history: History) -> TakeCosts | None:
    """The cost of the takes that branch off a history; None if it has none with steps."""
    with_steps = [take for take in takes(history) if take.steps]
    if not with_steps:
        return None
    prices, model = price_list(), history.session.model
    ends = ends_of_takes(history, with_steps)
    money = [money_of(totals_after(end, before), model, prices) for before, end in ends]
    return TakeCosts(
        takes=with_steps,
        micros=sum(one.micros for one in money),
        is_known=any(one.source not in ("unknown", "none") for one in money),
        is_complete=len(with_steps) < NEWEST and not any(one.unknown for one in money),
    )
