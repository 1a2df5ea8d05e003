"""The steps that a filter finds around a place, as the step list shows them."""

from dataclasses import dataclass, replace

from dashboard.place import Place
from historyapp.models import Episode
from historyapp.models.step_filters import FoundSteps, StepSearch

AROUND = 25
"""Matching steps before and after the playhead; scrolling looks for as many again."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """A window of the steps that match."""

    place: Place
    rows: list[Episode]
    earlier: int | None = None
    """Steps before this one have not been looked at; None: all have, or another window leads there."""
    later: int | None = None
    """Likewise the steps after this one."""

    is_whole: bool = False
    """Whether it was looked for on both sides."""

    @property
    def earlier_step(self) -> int:
        """Where a reader without scripts goes on towards the first step."""
        return max(1, (self.earlier or 1) - 1)

    @property
    def later_step(self) -> int:
        return min(self.place.steps, (self.later or 0) + 1)


def found_around(place: Place, step: int) -> FoundRows:
    """Matches before a step, the step itself where it matches, and those after it."""
    back, on = found_before(place, step), found_after(place, step - 1)
    return replace(on, rows=[*back.rows, *on.rows], earlier=back.earlier, is_whole=True)


def found_after(place: Place, step: int) -> FoundRows:
    """The next matches after a step."""
    found = _search(place, range(max(0, step) + 1, place.steps + 1))
    return FoundRows(place, found.rows, later=_rest(found, -1))


def found_before(place: Place, step: int) -> FoundRows:
    """The last matches before a step."""
    found = _search(place, range(min(step - 1, place.steps), 0, -1))
    return FoundRows(place, found.rows[::-1], earlier=_rest(found, 1))


def _search(place: Place, within: range) -> FoundSteps:
    return StepSearch(place.history, place.filter.wanted, within).find(AROUND)


def _rest(found: FoundSteps, back: int) -> int | None:
    """Where the steps begin that have not been looked at; the one where a search broke off is again."""
    if found.more is None:
        return None
    is_match = bool(found.rows) and found.rows[-1].number == found.more.number
    return found.more.number if is_match else found.more.number + back
