"""Reads a project's figures for a range of days, by day, agent, model or tool. No entries are read."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, Subquery, Value, When

from historyapp.core.day_figures import NO_DAY, DayFigures
from historyapp.core.errors import Invalid
from historyapp.models import FiguresProgress, Project, ProjectDay, Session
from historyapp.models.changes import newest_cursor
from historyapp.models.session_filters import SessionCriteria
from historyapp.models.sql import fetch_all
from historyapp.models.sums import LargeSum
from historyapp.services.figures.first_names import first_names
from historyapp.services.figures.group_figures import MOST_STEPS, GroupFigures, GroupOrder
from historyapp.services.figures.known_costs import KnownCosts

Grouping = Literal["day", "agent", "model", "tool"]
MAX_DAYS = 3660
"""The longest range: ten years."""
MAX_GROUPS = 200
"""At most this many agents, models or tools are listed."""
MAX_ROWS = 20_000
"""At most this many sums are read, one for each group and model. Above, models whose cost is known share a
sum."""
MAX_KEYS = 4_000
"""With more agents, models and tools together, the first names of each are chosen before figures are read."""
MAX_UNPRICED = 8
"""At most this many of the others then keep sums of their own, those that were called most."""
TOO_SLOW = "The figures took longer than {limit}. Ask for fewer days, or for one agent, model or tool."


@dataclass(frozen=True, slots=True)
class FiguresQuery:
    """The figures that a reader requests."""

    first: date
    last: date
    """Both included, in UTC."""
    agent: str | None = None
    model: str | None = None
    tool: str | None = None
    take: Literal["live", "all"] = "live"
    """``all``: includes the entries that rewinds have cut off."""

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise Invalid(f"`from` is {self.first}, which is after `to`, {self.last}. Swap them.")
        if self.days > MAX_DAYS:
            raise Invalid(f"The range has {self.days:,} days. Ask for at most {MAX_DAYS:,} at once.")

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def before(self) -> "FiguresQuery | None":
        """The range of the same length before this one; None if it begins before the calendar."""
        if (self.first - date.min).days < self.days:
            return None
        length = timedelta(days=self.days)
        return replace(self, first=self.first - length, last=self.last - length)

    def rows(self, project: UUID, days: Q | None = None) -> "QuerySet[ProjectDay]":
        """The rows of the range."""
        span = Q(day__range=(self.first, self.last)) & ~Q(day=NO_DAY)
        names = {
            name: value for name in ("agent", "model", "tool") if (value := getattr(self, name)) is not None
        }
        live = {"is_live": True} if self.take == "live" else {}
        return ProjectDay.objects.filter(span if days is None else days, project=project, **names, **live)


class RecordedDays(NamedTuple):
    """What a choice of days can show of a project."""

    first: date | None = None
    """The first day with figures, or None."""
    undated_runs: int = 0
    """Runs whose transcripts have no times, also archived ones."""


NO_RECORDS = RecordedDays()


class NamedGroups(NamedTuple):
    """The figures of days, agents, models or tools."""

    listed: dict[Any, GroupFigures]
    """All days, or the first :data:`MAX_GROUPS` names."""
    item_count: int
    """The number of days or names, also of those that are not listed."""


def grouped(project: UUID, query: FiguresQuery, by: Grouping, order: GroupOrder | None = None) -> NamedGroups:
    """The figures by day, or of the first :data:`MAX_GROUPS` names.

    Args:
        order: by default days are sorted by date, and names by their steps, the most first.
    """
    rows = query.rows(project).order_by()
    if by == "day":
        groups = _added_up(rows, by)
        return NamedGroups(order.apply(groups) if order else dict(sorted(groups.items())), len(groups))
    order = order or MOST_STEPS
    names = len(rows.values_list(by).distinct()[: MAX_GROUPS + 1])
    if names > MAX_GROUPS:
        names = rows.aggregate(names=Count(by, distinct=True))["names"]
        rows = rows.filter(**{f"{by}__in": first_names(rows, by, order, MAX_GROUPS)})
    return NamedGroups(order.apply(_added_up(rows, by)), names)


def grouped_by_names(
    project: UUID, query: FiguresQuery, order: GroupOrder = MOST_STEPS
) -> dict[Grouping, NamedGroups]:
    """The figures by agent, model and tool. Reads the rows once for all three if there are few names."""
    names: tuple[Grouping, ...] = ("agent", "model", "tool")
    keys = query.rows(project).order_by().values_list(*names, "has_cost")
    if len(keys.distinct()[: MAX_KEYS + 1]) > MAX_KEYS:
        return {name: grouped(project, query, name, order.of(name)) for name in names}
    sums = {f"sum_{name}": LargeSum(name) for name in DayFigures._fields}
    statement, values = keys.annotate(**sums).query.sql_with_params()
    columns = ", ".join((*names, "has_cost", *sums))
    summed = ", ".join(f"SUM({name})" for name in sums)
    by_name = " UNION ALL ".join(
        f"SELECT '{name}', {name}, model, has_cost, {summed} FROM days GROUP BY 2, 3, 4"  # noqa: S608
        for name in names
    )
    grouped_rows = fetch_all(f"WITH days ({columns}) AS MATERIALIZED ({statement}) {by_name}", values)
    groups: dict[Grouping, dict[str, GroupFigures]] = {name: {} for name in names}
    for by, name, model, has_cost, *figures in grouped_rows:
        group = groups[by].setdefault(name, GroupFigures())
        group.add(model, has_cost=bool(has_cost), figures=DayFigures(*map(int, figures)))
    return {name: _first(groups[name], order.of(name)) for name in names}


def _first(groups: dict[Any, GroupFigures], order: GroupOrder) -> NamedGroups:
    return NamedGroups(dict(islice(order.apply(groups).items(), MAX_GROUPS)), len(groups))


def total_of(groups: Iterable[GroupFigures]) -> GroupFigures:
    """The sum of all groups."""
    total = GroupFigures()
    for group in groups:
        total.include(group)
    return total


def total_in(project: UUID, query: FiguresQuery | None) -> GroupFigures:
    """The figures of the whole range."""
    return total_of(_added_up(query.rows(project), "is_live").values()) if query else GroupFigures()


def cut_off(project: UUID, query: FiguresQuery) -> GroupFigures:
    """The figures of the range's steps that rewinds have cut off."""
    rows = replace(query, take="all").rows(project).filter(is_live=False)
    return total_of(_added_up(rows, "is_live").values())


def undated(project: UUID, query: FiguresQuery) -> GroupFigures:
    """The figures of entries without a known time, which are in no range."""
    return total_of(_added_up(query.rows(project, Q(day=NO_DAY)), "is_live").values())


def recorded_days(project: UUID, agent: str | None = None) -> RecordedDays:
    """The first day with figures, and the runs that are on none. Takes one query.

    Args:
        agent: only runs of this agent are counted.
    """
    days = ProjectDay.objects.filter(project=project, day__gt=NO_DAY).order_by("day")
    criteria = SessionCriteria(status="all", agent=(agent,) if agent else (), undated=True)
    runs = criteria.apply(Session.objects.filter(project=project)).order_by().values("project")
    counted = runs.annotate(runs=Count("pk")).values("runs")
    columns = Subquery(days.values("day")[:1]), Subquery(counted)
    first, undated_runs = Project.objects.filter(pk=project).values_list(*columns).get()
    return RecordedDays(first, undated_runs or 0)


def is_current(project: UUID) -> bool:
    """Whether all changes of the project are counted."""
    progress = FiguresProgress.objects.filter(project=project, is_complete=True).first()
    newest = newest_cursor(project)
    return progress is not None and (progress.transaction_id, progress.change_id) >= newest


def _added_up(rows: "QuerySet[ProjectDay]", by: str) -> dict[Any, GroupFigures]:
    """The figures by a column."""
    sums = {f"sum_{name}": LargeSum(name) for name in DayFigures._fields}
    keys = rows.order_by().values_list(F(by), "model", "has_cost")
    sums_by_model = list(keys.annotate(**sums)[: MAX_ROWS + 1])
    if len(sums_by_model) > MAX_ROWS:
        return _added_up_by_cost(rows, by)
    groups: dict[Any, GroupFigures] = {}
    for name, model, has_cost, *values in sums_by_model:
        figures = DayFigures(*map(int, values))
        groups.setdefault(name, GroupFigures()).add(model, has_cost=has_cost, figures=figures)
    return groups


def _added_up_by_cost(rows: "QuerySet[ProjectDay]", by: str) -> dict[Any, GroupFigures]:
    """The figures by a column, of many models. SQL adds up their costs."""
    costs = KnownCosts.of(rows)
    is_known = Case(When(costs.is_known, then=True), default=False, output_field=BooleanField())
    unpriced = Q(model__in=costs.unpriced[:MAX_UNPRICED])
    model = Case(When(costs.is_known, then=Value("")), When(unpriced, then=F("model")), default=Value(""))
    sums = {f"sum_{name}": LargeSum(name) for name in DayFigures._fields}
    groups: dict[Any, GroupFigures] = {}
    keys = rows.order_by().values_list(F(by), model, is_known)
    for name, unpriced_model, has_micros, micros, *values in keys.annotate(sum_micros=costs.micros, **sums):
        figures, known_micros = DayFigures(*map(int, values)), round(micros) if has_micros else None
        group = groups.setdefault(name, GroupFigures())
        group.add(unpriced_model, has_cost=False, figures=figures, micros=known_micros)
    return groups
