"""The figures of a day, agent, model or tool with their cost, and the orders in which they are listed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from historyapp.core.day_figures import NO_FIGURES, DayFigures
from historyapp.core.sorting import parse_sort, sort_text
from historyapp.core.usage import lacks_output
from historyapp.services.prices import price_list


@dataclass(slots=True)
class GroupFigures:
    """Figures with their cost."""

    figures: DayFigures = NO_FIGURES
    micros: int = 0
    """The cost of the model calls in millionths of a US dollar, as reported or by the price list."""
    unpriced: set[str] = field(default_factory=set)
    """Models without a known price. The cost does not include their model calls."""
    unpriced_tokens: int = 0
    """The reported tokens of these model calls."""

    @property
    def failed(self) -> int:
        """Steps that ended in an error, or look like a failure."""
        return min(self.figures.steps, self.figures.errors + self.figures.likely_failures)

    @property
    def lacks_output(self) -> bool:
        """Whether sources reported too few output tokens of calls whose cost they did not report."""
        missing = self.figures.missing_output
        return bool(missing) and lacks_output(missing, self.figures.output)

    @property
    def is_minimum(self) -> bool:
        """Whether the true cost is higher than ``micros``."""
        return bool(self.unpriced) or self.lacks_output

    def add(self, model: str, *, has_cost: bool, figures: DayFigures, micros: int | None = None) -> None:
        """Adds figures of one model, or of several models whose cost is ``micros``."""
        self.figures = self.figures.plus(figures)
        if micros is not None:
            self.micros += micros
        elif has_cost or not figures.model_calls:
            self.micros += figures.cost
        elif price := price_list().of(model):
            self.micros += price.cost(figures.usage)
        else:
            self.unpriced.add(model)
            self.unpriced_tokens += figures.reported_tokens

    def include(self, other: "GroupFigures") -> None:
        """Adds the figures of another group."""
        self.figures = self.figures.plus(other.figures)
        self.micros += other.micros
        self.unpriced |= other.unpriced
        self.unpriced_tokens += other.unpriced_tokens


def _failure_rate(group: GroupFigures) -> float | None:
    return group.failed / group.figures.steps if group.figures.steps else None


def _tokens(name: str) -> Callable[[GroupFigures], int | None]:
    def value(group: GroupFigures) -> int | None:
        tokens: int = getattr(group.figures, name)
        return tokens if group.figures.model_calls else None

    return value


def _money(group: GroupFigures) -> int | None:
    is_known = group.micros or (group.figures.model_calls and not group.unpriced)
    return group.micros if is_known else None


ORDERS: Mapping[str, Callable[[GroupFigures], float | None]] = {
    "sessions": lambda group: group.figures.sessions,
    "steps": lambda group: group.figures.steps,
    "errors": lambda group: group.figures.errors,
    "likely_failures": lambda group: group.figures.likely_failures,
    "failure_rate": _failure_rate,
    "tokens": _tokens("reported_tokens"),
    "uncached": _tokens("uncached"),
    "cache_read": _tokens("cache_read"),
    "cache_write": _tokens("cache_write"),
    "output": _tokens("output"),
    "money": _money,
}
"""The value of each sort key; None if it is unknown."""


class GroupOrder(NamedTuple):
    """An order of groups. Unknown values come last. In ties, the most steps come first."""

    name: str = "steps"
    is_descending: bool = True

    def __str__(self) -> str:
        return sort_text(self.name, self.is_descending)

    @classmethod
    def parse(cls, text: str) -> "GroupOrder":
        """The order that a text names, see :func:`historyapp.core.sorting.parse_sort`.

        Raises:
            Invalid: if there is no such sort key.
        """
        return cls(*parse_sort(text, ORDERS))

    def of(self, grouping: str) -> "GroupOrder":
        """The order of a table. A model and a tool have no sessions: a session may use several of them."""
        return MOST_STEPS if grouping in ("model", "tool") and self.name == "sessions" else self

    def apply(self, groups: Mapping[Any, GroupFigures]) -> dict[Any, GroupFigures]:
        """The groups in this order."""
        value_of, sign = ORDERS[self.name], -1 if self.is_descending else 1

        def key(item: tuple[Any, GroupFigures]) -> tuple[bool, float, int, Any]:
            value = value_of(item[1])
            return value is None, sign * (value or 0), -item[1].figures.steps, item[0]

        return dict(sorted(groups.items(), key=key))


MOST_STEPS = GroupOrder()
"""The default order."""
