"""The filters of the list of sessions, and the number of sessions that each other filter would leave."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Case, F, IntegerField, Q, Value, When
from django.utils import timezone

from historyapp.core.dates import UNDATED
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.sessions import Session, SessionQuerySet

NAMED_FACETS = ("agent", "model", "repository", "folder")
"""Facets with names. Several names of one facet match sessions with any of them."""
DAYS = {"today": 1, "7-days": 7, "30-days": 30}
"""Date ranges that end today, in days."""
UNDATED_RUNS = "undated"
FACETS = ("status", *NAMED_FACETS, "tag", "errors", "likely_failures")
_BUCKETS = ((*DAYS,), (*DAYS,)[1:], (*DAYS,)[2:], (), (UNDATED_RUNS,))
"""The date ranges that include the sessions of a bucket."""
MAX_TAG_CHARACTERS = 4_000_000
"""Characters of tags that are read to count them. A session can have 5,000."""
MAX_VALUES = 20
"""The maximum number of values of one facet."""


@dataclass(frozen=True, slots=True)
class SessionCriteria:
    """The filters of a list of sessions. The default is all sessions that are not archived."""

    q: str = ""
    status: str = ""
    """Empty: all but archived ones. ``all``: also archived ones."""
    agent: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    """The session must have all of them. Case matters."""
    errors: bool | None = None
    likely_failures: bool | None = None
    first: date | None = None
    """The first day (UTC) of the newest entry. Undated runs match no day."""
    last: date | None = None
    undated: bool | None = None

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match."""
        chosen = sessions.search(self.q).tagged(self.tag)
        for condition in self.conditions.values():
            chosen = chosen.filter(condition)
        return chosen

    @property
    def conditions(self) -> Mapping[str, Q]:
        """The conditions of ``status``, named facets, ``errors``, ``likely_failures`` and ``date``."""
        conditions = {}
        if self.status != "all":
            conditions["status"] = Q(status=self.status) if self.status else ~Q(status="archived")
        for facet in NAMED_FACETS:
            if values := getattr(self, facet):
                conditions[facet] = Q(**{f"{facet}__in": values})
        for count in ("errors", "likely_failures"):
            if (has_any := getattr(self, count)) is not None:
                conditions[count] = Q(**({f"{count}__gt": 0} if has_any else {count: 0}))
        if self.in_time:
            conditions["date"] = self.in_time
        return conditions

    @property
    def in_time(self) -> Q:
        """The condition on the time of the newest entry."""
        condition = Q()
        if self.undated is not None:
            condition &= Q(last_entry_at=UNDATED) if self.undated else ~Q(last_entry_at=UNDATED)
        if self.first is not None or self.last is not None:
            condition &= Q(last_entry_at__gt=UNDATED)
        if self.first is not None:
            condition &= Q(last_entry_at__gte=_midnight(self.first))
        if self.last is not None and self.last < date.max:
            condition &= Q(last_entry_at__lt=_midnight(self.last + timedelta(days=1)))
        return condition


class FacetCounts(NamedTuple):
    """The number of sessions of a list, and with each other value of a facet."""

    total: int
    listed: int
    """Those of them that have a row of their own."""
    facets: Mapping[str, Counter[str]]
    """By facet and value. Errors and likely failures have ``true`` and ``false``. Another tag narrows the
    list. Another agent or model widens it, so agents and models are counted as if none was chosen. So are
    the date ranges of ``DAYS`` and undated runs in ``date``.
    """


@limit_statements(LIST_SECONDS)
def facet_counts(sessions: SessionQuerySet, chosen: SessionCriteria, has_row: Q | None = None) -> FacetCounts:
    """The counts of all facets of some sessions of a project. Takes two queries.

    Args:
        has_row: the condition of sessions that have a row of their own; all have one without it.

    Raises:
        SearchTooSlow: if they take longer than :data:`LIST_SECONDS`.
    """
    facets = {facet: Counter[str]() for facet in (*FACETS, "date")}
    totals = dict.fromkeys(("total", "listed"), 0)
    found = sessions.search(chosen.q).tagged(chosen.tag)
    for facet, value, count in _counted(found, chosen.conditions, has_row):
        match facet:
            case "total" | "listed":
                totals[facet] = count
            case "errors" | "likely_failures":
                facets[facet]["true" if value == "1" else "false"] = count
            case "date":
                facets["date"].update(dict.fromkeys(_BUCKETS[int(value)], count))
            case _:
                facets[facet][value] = count
    facets["tag"] = _tag_counts(chosen.apply(sessions))
    return FacetCounts(**totals, facets=facets)


def _counted(
    sessions: SessionQuerySet, conditions: Mapping[str, Q], has_row: Q | None
) -> list[tuple[str, str, int]]:
    """Each facet's values with their sessions, which meet the conditions of all other facets; and the totals.

    The statement reads each session once, and groups only the facets whose values are not known before. One
    GROUP BY of all facets takes three times as long.
    """
    met = {facet: f"meets_{facet}" for facet in conditions}
    known: dict[str, tuple[Any, Iterable[int | str]]] = {
        "total": (Value(1), (1,)),
        "listed": (_condition(has_row) if has_row else Value(1), (1,)),
        "errors": (_condition(Q(errors__gt=0)), (0, 1)),
        "likely_failures": (_condition(Q(likely_failures__gt=0)), (0, 1)),
        "date": (_bucket(), range(len(_BUCKETS))),
        "status": (F("status"), Session.Status.values),
    }
    rows = sessions.order_by().annotate(
        **{f"value_of_{facet}": column for facet, (column, _) in known.items()},
        **{f"value_of_{facet}": F(facet) for facet in NAMED_FACETS},
        **{met[facet]: _condition(condition) for facet, condition in conditions.items()},
    )
    names = [f"value_of_{facet}" for facet in (*known, *NAMED_FACETS)]
    try:
        statement, values = rows.values_list(*names, *met.values()).query.sql_with_params()
    except EmptyResultSet:
        return []

    def others(facet: str) -> str:
        return " AND ".join(f"{name} = 1" for other, name in met.items() if other != facet) or "1 = 1"

    sums, counts = [], []
    for facet, (_, facet_values) in known.items():
        for value in facet_values:
            chosen = f"value_of_{facet} = {value!r} AND {others(facet)}"
            sums.append(f"COUNT(*) FILTER (WHERE {chosen}) AS {facet}_{value}")
            counts.append(f"SELECT '{facet}', '{value}', {facet}_{value} FROM sums")  # noqa: S608 our own names and numbers
    for facet in NAMED_FACETS:
        grouped = f"FROM listed WHERE {others(facet)} GROUP BY 2"
        counts.append(f"SELECT '{facet}', value_of_{facet}, COUNT(*) {grouped}")
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH listed AS MATERIALIZED ({statement}), "  # noqa: S608
            f"sums AS MATERIALIZED (SELECT {', '.join(sums)} FROM listed) {' UNION ALL '.join(counts)}",
            values,
        )
        return [row for row in cursor.fetchall() if row[2]]


def _tag_counts(sessions: SessionQuerySet) -> Counter[str]:
    """How many of the sessions have each tag. The newest are read, up to :data:`MAX_TAG_CHARACTERS`."""
    tagged, characters = Counter[str](), 0
    for tags_text in sessions.with_tags().newest_first().values_list("tags_text", flat=True).iterator(500):
        tagged[tags_text] += 1
        characters += len(tags_text)
        if characters > MAX_TAG_CHARACTERS:
            break
    counts = Counter[str]()
    for tags_text, number in tagged.items():
        for tag in tags_text.split("\n")[1:-1]:
            counts[tag] += number
    return counts


def _bucket() -> Case:
    """The number of the shortest date range that includes a session, see ``_BUCKETS``."""
    today = timezone.now().astimezone(UTC).date()
    spans = [
        When(last_entry_at__gte=_midnight(today - timedelta(days=days - 1)), then=Value(number))
        for number, days in enumerate(DAYS.values())
    ]
    undated = When(last_entry_at=UNDATED, then=Value(len(_BUCKETS) - 1))
    return Case(*spans, undated, default=Value(len(DAYS)), output_field=IntegerField())


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)


def _condition(condition: Q) -> Case:
    """1 or 0. SQLite has no truth values, and Django takes long to convert those of thousands of rows."""
    return Case(When(condition, then=Value(1)), default=Value(0), output_field=IntegerField())
