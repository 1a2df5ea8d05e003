"""The page of figures: a date range, its charts and tables, and the trend in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from django.utils.http import urlencode

from dashboard.figures.percents import percent_text
from dashboard.figures.pictures import Picture, pictures
from dashboard.timeline.bars import percent
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.core.usage import MICRO
from historyapp.models.day_figures import MAX_NAME
from historyapp.models.episodes import SEVERAL_TOOLS
from historyapp.services.figures.project_figures import (
    FiguresQuery,
    GroupFigures,
    grouped,
    grouped_by_names,
    is_current,
    total_in,
    total_of,
    undated,
)

SPANS = (7, 30, 90)
MAX_BARS, MAX_ROWS = 92, 366
_NAMES: tuple[Literal["agent", "model", "tool"], ...] = ("agent", "model", "tool")


class Trend(NamedTuple):
    """A figure and how it compares with the previous range."""

    name: str
    shown: str
    words: str


def read_span(query: QueryDict) -> FiguresQuery:
    """The span and the filters of an address.

    Raises:
        Invalid: for a day that does not exist, or a span that is too long.
    """
    today = timezone.now().astimezone(UTC).date()
    days = query.get("days", "")
    if days and days not in map(str, SPANS):
        raise Invalid(
            f"days must be one of {', '.join(map(str, SPANS))}. For another range, use from and to."
        )
    last = _day(query.get("to", ""), today)
    first = _day(query.get("from", ""), date.fromordinal(max(1, last.toordinal() - int(days or 30) + 1)))
    agent, model, tool = (clean(query.get(name, ""))[:MAX_NAME] or None for name in _NAMES)
    return FiguresQuery(first, last, agent, model, tool)


def _day(text: str, default: date) -> date:
    if not text:
        return default
    try:
        if len(text) == len("2026-01-31"):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Invalid("`from` and `to` must be days, such as 2026-01-31.")


@dataclass(frozen=True)
class FiguresPage:
    """The data of the template."""

    project: UUID
    query: FiguresQuery

    @cached_property
    def by_day(self) -> Mapping[date, GroupFigures]:
        return grouped(self.project, self.query, "day")

    @cached_property
    def rows(self) -> list[tuple[date, GroupFigures]]:
        """The rows of the table behind the charts, newest first."""
        return list(self.by_day.items())[::-1][:MAX_ROWS]

    @cached_property
    def tables(self) -> list[tuple[str, list[tuple[str, str, str, GroupFigures]]]]:
        """For agents, models and tools: the name, its value in the filter, the width of its bar, and its
        figures."""
        groups = grouped_by_names(self.project, self.query)
        return [(name, self._table(name, groups[name])) for name in _NAMES]

    def _table(
        self, kind: str, groups: Mapping[Any, GroupFigures]
    ) -> list[tuple[str, str, str, GroupFigures]]:
        maximum = max((group.figures.steps for group in groups.values()), default=0) or 1
        unnamed = "no tool called" if kind == "tool" else "not named"
        labels = {"": unnamed, SEVERAL_TOOLS: "several tools"}
        return [
            (
                labels.get(name, name),
                self.link(**{kind: name}) if name else "",
                percent(group.figures.steps, maximum),
                group,
            )
            for name, group in groups.items()
        ]

    @cached_property
    def total(self) -> GroupFigures:
        return total_of(self.by_day.values())

    @property
    def steps_without_usage(self) -> int:
        """At least this many steps have no reported usage. No recorded agent reports several model calls of a
        step."""
        return max(0, self.total.figures.steps - self.total.figures.model_calls)

    @cached_property
    def undated(self) -> GroupFigures:
        return undated(self.project, self.query)

    @cached_property
    def is_current(self) -> bool:
        return is_current(self.project)

    @property
    def address(self) -> str:
        """The address of this page."""
        return self.link()

    @property
    def filters(self) -> list[tuple[str, str, str]]:
        """The active filters: the field, the name, and the address without the filter."""
        values = [(name, getattr(self.query, name)) for name in _NAMES]
        return [(name, value, self.link(**{name: ""})) for name, value in values if value]

    def link(self, **changes: str) -> str:
        """The address of the page with other filters or days."""
        query = self.query
        values = {"from": query.first.isoformat(), "to": query.last.isoformat()}
        values |= {name: value for name in _NAMES if (value := getattr(query, name))}
        return "?" + urlencode({name: value for name, value in {**values, **changes}.items() if value})

    @property
    def spans(self) -> list[tuple[int, str, bool]]:
        """The spans to choose: days, address, and whether the page shows it."""
        today = timezone.now().astimezone(UTC).date()
        chosen = self.query.days if self.query.last == today else 0
        since = ((days, today - timedelta(days=days - 1)) for days in SPANS)
        return [
            (days, self.link(**{"from": first.isoformat(), "to": today.isoformat()}), days == chosen)
            for days, first in since
        ]

    @cached_property
    def pictures(self) -> list[Picture]:
        """Steps, errors, tokens and money by day, or by several days of a long span."""
        days_per_bar = -(-self.query.days // MAX_BARS)
        slots = [GroupFigures() for _ in range(-(-self.query.days // days_per_bar))]
        for day, group in self.by_day.items():
            slot = slots[(day - self.query.first).days // days_per_bar]
            slot.include(group)
        return pictures(slots, self.query.first, days_per_bar) if self.by_day else []

    @cached_property
    def trends(self) -> list[Trend]:
        """The main figures, compared with the previous range."""
        now, before = self.total, total_in(self.project, self.query.before)
        names = ("sessions", "steps", "errors", "likely_failures")
        counts = [
            (name.replace("_", " "), getattr(now.figures, name), getattr(before.figures, name))
            for name in names
        ]
        counts.append(("tokens", now.figures.reported_tokens, before.figures.reported_tokens))
        days = self.query.days
        trends = [Trend(label, f"{count:,}", change_text(count, then, days)) for label, count, then in counts]
        return [*trends, cost_trend(now, before, days)]


def cost_trend(now: GroupFigures, before: GroupFigures, days: int) -> Trend:
    """The cost of a range as far as it is known, and the models that it does not include."""
    left_out, left_out_before = unpriced_text(now), unpriced_text(before)
    if left_out and not now.micros:
        return Trend("cost", "unknown", left_out)
    shown = f"{'≥ ' if left_out else ''}${now.micros / MICRO:,.2f}"
    if left_out_before and not before.micros:
        change = f"unknown in {_span(days)}"
    else:
        change = change_text(now.micros, before.micros, days)
    if left_out:
        change = f"{left_out}; the rest: {change}"
    if left_out_before:
        change += f" ({left_out_before} there)"
    return Trend("cost", shown, change)


def unpriced_text(group: GroupFigures) -> str:
    """The models whose cost is unknown, and their share of the tokens; empty if there are none."""
    if not group.unpriced:
        return ""
    count = len(group.unpriced)
    share = percent_text(group.unpriced_tokens, group.figures.reported_tokens)
    return f"no known price for {count:,} model{'s' * (count != 1)}, {share} of the tokens"


def change_text(now: int, before: int, days: int) -> str:
    """The comparison of a figure with the previous range, in words."""
    span = _span(days)
    if now == before:
        return f"the same as in {span}"
    if not before:
        return f"none in {span}"
    change = round(100 * abs(now - before) / before)
    return f"{change:,} % {'more' if now > before else 'less'} than in {span}"


def _span(days: int) -> str:
    return "the day before" if days == 1 else f"the previous {days:,} days"
