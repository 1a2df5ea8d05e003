"""The page of figures: a date range, its charts and tables, and the trend in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.http import urlencode

from dashboard.figures.pictures import Picture, pictures
from dashboard.figures.tables import (
    TITLES,
    TOO_FEW,
    FiguresTable,
    cost_text,
    names_table,
    table_columns,
    unpriced_text,
)
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.core.usage import rounded_dollars
from historyapp.models.day_figures import MAX_NAME
from historyapp.models.session_filters import UNDATED_RUNS
from historyapp.services.figures.group_figures import MOST_STEPS, GroupFigures, GroupOrder
from historyapp.services.figures.project_figures import (
    MAX_DAYS,
    NO_RECORDS,
    FiguresQuery,
    RecordedDays,
    cut_off,
    grouped,
    grouped_by_names,
    is_current,
    total_in,
    total_of,
    undated,
)

SPANS = (7, 30, 90)
ALL = "all"
"""The parameter ``days`` for all days on which something was recorded."""
MAX_BARS, MAX_ROWS = 92, 366
_NAMES: tuple[Literal["agent", "model", "tool"], ...] = ("agent", "model", "tool")


class Trend(NamedTuple):
    """A figure and how it compares with the previous range."""

    name: str
    shown: str
    words: str


def read_span(query: QueryDict, recorded_since: date | None = None) -> FiguresQuery:
    """The span and the filters of an address.

    Args:
        recorded_since: the first day of ``days=all``; None: nothing has been recorded.

    Raises:
        Invalid: for a day that does not exist, or a span that is too long.
    """
    today = timezone.now().astimezone(UTC).date()
    days = query.get("days", "")
    known = [*map(str, SPANS), ALL]
    if days and days not in known:
        raise Invalid(f"days must be one of {', '.join(known)}. For another range, use from and to.")
    last = _day(query.get("to", ""), today)
    if days == ALL and recorded_since:
        default = _first_of_all(recorded_since, last)
    else:
        count = 30 if days in ("", ALL) else int(days)
        default = date.fromordinal(max(1, last.toordinal() - count + 1))
    first = _day(query.get("from", ""), default)
    agent, model, tool = (read_name(query, name) for name in _NAMES)
    return FiguresQuery(first, last, agent, model, tool)


def read_name(query: QueryDict, name: str) -> str | None:
    """The agent, model or tool by which an address filters, or None."""
    return clean(query.get(name, ""))[:MAX_NAME] or None


def _first_of_all(recorded_since: date, last: date) -> date:
    """The first of all days up to the last one, of the newest :data:`MAX_DAYS` if there are more."""
    return min(last, max(recorded_since, date.fromordinal(max(1, last.toordinal() - MAX_DAYS + 1))))


def read_order(query: QueryDict) -> GroupOrder:
    """The order of the tables of an address.

    Raises:
        Invalid: if there is no such sort key.
    """
    sort = query.get("sort", "")
    return GroupOrder.parse(sort) if sort else MOST_STEPS


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
    order: GroupOrder = MOST_STEPS
    recorded: RecordedDays = NO_RECORDS

    @cached_property
    def by_day(self) -> Mapping[date, GroupFigures]:
        return grouped(self.project, self.query, "day").listed

    @cached_property
    def rows(self) -> list[tuple[date, GroupFigures]]:
        """The rows of the table behind the charts, newest first."""
        return list(self.by_day.items())[::-1][:MAX_ROWS]

    @cached_property
    def day_heads(self) -> list[str]:
        """The heads of the table of days, after the day."""
        return [TITLES[name] for name in table_columns(self.columns_of)]

    @property
    def columns_of(self) -> str:
        """``model`` or ``tool`` if the page is filtered by one. Then the number of sessions is unknown: a
        session counts for only one model and one tool."""
        return "model" if self.query.model else "tool" if self.query.tool else ""

    @cached_property
    def tables(self) -> list[FiguresTable]:
        groups = grouped_by_names(self.project, self.query, self.order)
        return [names_table(name, groups[name], self.order, self.columns_of) for name in _NAMES]

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

    @property
    def undated_runs(self) -> int:
        """The number of runs without times, which are in no chart. 0 with a filter by model or tool,
        because a list of sessions knows only one model."""
        return 0 if self.other_filters else self.recorded.undated_runs

    @property
    def undated_list(self) -> str:
        """The query of the list of these runs."""
        agent = {"agent": self.query.agent} if self.query.agent else {}
        return urlencode({"status": "all", "date": UNDATED_RUNS, **agent})

    @cached_property
    def cut_off(self) -> str:
        """The steps that rewinds have cut off, which the figures do not include; empty if there are none."""
        left_out = cut_off(self.project, self.query)
        figures = left_out.figures
        if not figures.steps and not figures.model_calls:
            return ""
        text = f"{figures.steps:,} step{'s' * (figures.steps != 1)}"
        if not figures.model_calls:
            return text
        return f"{text} with {figures.reported_tokens:,} tokens, cost {cost_text(left_out)}"

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
        values |= {"sort": str(self.order)} if self.order != MOST_STEPS else {}
        return "?" + urlencode({name: value for name, value in {**values, **changes}.items() if value})

    @property
    def other_filters(self) -> list[str]:
        """The active filters by model and tool. Lists of sessions and failures have only the one by agent."""
        return [name for name, _, _ in self.filters if name != "agent"]

    @property
    def list_query(self) -> str:
        """The query of the list of sessions whose newest entry is on these days, of this agent. Without the
        model: the list knows only one model of a run."""
        agent = {"agent": self.query.agent} if self.query.agent else {}
        return urlencode({"from": self.query.first.isoformat(), "to": self.query.last.isoformat(), **agent})

    @property
    def tables_as_of(self) -> datetime | None:
        """When the tables were counted, if the range includes today: they do not update."""
        now = timezone.now().astimezone(UTC)
        return now if self.query.last >= now.date() else None

    @property
    def spans(self) -> list[tuple[str, str, bool]]:
        """The spans to choose: title, address, and whether the page shows it."""
        today = timezone.now().astimezone(UTC).date()
        since = [(f"{days} days", today - timedelta(days=days - 1)) for days in SPANS]
        if self.recorded.first:
            first = _first_of_all(self.recorded.first, today)
            title = "All days" if first <= self.recorded.first else f"Newest {MAX_DAYS:,} days"
            since.append((title, first))
        chosen = self.query.first if self.query.last == today else None
        return [
            (title, self.link(**{"from": first.isoformat(), "to": today.isoformat()}), first == chosen)
            for title, first in since
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
            if name in table_columns(self.columns_of)
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
    shown = f"{'≥ ' if now.micros and now.is_minimum else ''}{rounded_dollars(now.micros)}"
    left_out_before = left_out_before or (TOO_FEW if before.lacks_output else "")
    if before.unpriced and not before.micros:
        change = f"unknown in {_span(days)}"
    else:
        change = change_text(now.micros, before.micros, days)
        change += f" ({left_out_before} there)" if left_out_before else ""
    if left_out:
        change = f"{left_out}; the rest: {change}"
    elif now.lacks_output:
        change = f"{TOO_FEW}; as reported: {change}"
    return Trend("cost", shown, change)


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
