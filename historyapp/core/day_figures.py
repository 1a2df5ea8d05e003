"""A project's figures for one day, which add up over sessions, agents, models and tools.

An entry stores the running totals of its lineage. Its own figures are the difference from the previous entry,
so they are known without the body.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

from historyapp.core.dates import UNDATED
from historyapp.core.projection import Totals
from historyapp.core.usage import NO_CALLS, ModelTotals, Usage

NO_DAY = UNDATED.date()
"""The day of entries without a known time."""


class DayFigures(NamedTuple):
    """Figures of some steps. All of them can be added and subtracted."""

    sessions: int = 0
    """Sessions that began."""
    steps: int = 0
    errors: int = 0
    """Steps that ended in a reported error."""
    likely_failures: int = 0
    """Steps that were reported as a success and look like a failure."""
    tokens: int = 0
    """Tokens of the entries by our own count, each entry once."""
    model_calls: int = 0
    """Model calls that reported their usage.

    The four kinds of tokens below are counted for these calls only.
    """
    uncached: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cost: int = 0
    """Reported by the source, in millionths of a US dollar."""
    milliseconds: int = 0
    """Time between tool calls and their results."""
    cache_write_hour: int = 0
    """Those of ``cache_write`` that live for an hour."""
    missing_output: int = 0
    """The output tokens by our own count that are missing from ``output``, of calls without a reported
    cost; see :func:`historyapp.core.usage.reports_too_few`."""

    def plus(self, other: "DayFigures") -> "DayFigures":
        return DayFigures(*map(int.__add__, self, other))

    def minus(self, other: "DayFigures") -> "DayFigures":
        return DayFigures(*map(int.__sub__, self, other))

    @property
    def reported_tokens(self) -> int:
        """Input and output, as providers reported them."""
        return self.uncached + self.cache_read + self.cache_write + self.output

    @property
    def usage(self) -> Usage:
        """The tokens that the model calls reported."""
        sent = self.uncached + self.cache_read + self.cache_write
        return Usage(
            sent,
            self.output,
            self.cache_read,
            self.cache_write,
            cache_write_hour=self.cache_write_hour,
        )

    def __bool__(self) -> bool:
        return any(self)


NO_FIGURES = DayFigures()


class FiguresKey(NamedTuple):
    """The key of figures. The agent is not part of it, because a session has one agent."""

    day: date
    """The day in UTC on which the step began; :data:`NO_DAY` if unknown."""
    model: str
    """The model that the model calls name; empty if they name none, which means the session's model."""
    tool: str
    """The tool of the step's calls, as in the column ``tool`` of its row; empty without tool calls."""
    has_cost: bool
    """Whether the source reported the cost of the model calls. Otherwise the price list is used."""
    is_live: bool = True
    """False in takes."""


def day_of(moment: datetime) -> date:
    """The day in UTC."""
    return moment.astimezone(UTC).date()


class EntryFigures(NamedTuple):
    """The figures that one entry adds."""

    figures: DayFigures
    model: str
    """The model of the reported model call; empty if it names none."""


def entry_figures(before: Totals, after: Totals) -> EntryFigures:
    """The figures that an entry adds, computed from the running totals before and after it."""
    figures = DayFigures(
        steps=after.steps - before.steps,
        errors=after.errors - before.errors,
        tokens=after.tokens - before.tokens,
    )
    if after.models == before.models:  # entries of earlier versions have no totals by model
        sent, received = after.input_tokens - before.input_tokens, after.output_tokens - before.output_tokens
        cost = after.cost - before.cost
        with_usage = figures._replace(uncached=sent, output=received, cost=cost, model_calls=int(sent > 0))
        return EntryFigures(with_usage, "")
    name, model_before, model_after = _changed(before.models, after.models)
    usage, earlier = model_after.usage, model_before.usage
    cost = model_after.cost - model_before.cost
    missing = model_after.missing_output - model_before.missing_output
    return EntryFigures(
        figures._replace(
            model_calls=model_after.calls - model_before.calls,
            uncached=usage.uncached - earlier.uncached,
            cache_read=usage.cache_read - earlier.cache_read,
            cache_write=usage.cache_write - earlier.cache_write,
            output=usage.output - earlier.output,
            cost=cost,
            cache_write_hour=usage.cache_write_hour - earlier.cache_write_hour,
            missing_output=0 if cost else missing,  # a reported cost may include the missing tokens
        ),
        name,
    )


def _changed(
    before: Mapping[str, ModelTotals], after: Mapping[str, ModelTotals]
) -> tuple[str, ModelTotals, ModelTotals]:
    """The model whose totals differ. An entry changes the totals of one model at most."""
    for name, totals in after.items():
        previous = before.get(name, NO_CALLS)
        if totals != previous:
            return name, previous, totals
    return "", NO_CALLS, NO_CALLS
