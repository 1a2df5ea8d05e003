"""The filters of the list of sessions, and the number of sessions that each other filter would leave."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.db.models import BooleanField, Case, Count, ExpressionWrapper, IntegerField, Q, Value, When
from django.utils import timezone

from historyapp.core.dates import UNDATED
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.sessions import SessionQuerySet

NAMED_FACETS = ("agent", "model", "repository", "folder")
"""Facets with names. Several names of one facet match sessions with any of them."""
DAYS = {"today": 1, "7-days": 7, "30-days": 30}
"""Date ranges that end today, in days."""
UNDATED_RUNS = "undated"
FACETS = ("status", *NAMED_FACETS, "tag", "errors", "likely_failures")
_SINGLE = ("status", *NAMED_FACETS, "errors", "likely_failures")
"""Facets with one value for each session."""
_BUCKETS = ((*DAYS,), (*DAYS,)[1:], (*DAYS,)[2:], (), (UNDATED_RUNS,))
"""The date ranges that include the sessions of a bucket."""
MAX_TAG_CHARACTERS = 4_000_000
"""Characters of tags that are read to count them. A session can have 5,000."""
MAX_VALUES = 20
"""The maximum number of values of one facet."""
_YES_NO = {True: "true", False: "false"}


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
        chosen = sessions.search(self.q).filter(self.in_time).tagged(self.tag)
        if not self.status:
            chosen = chosen.exclude(status="archived")
        elif self.status != "all":
            chosen = chosen.filter(status=self.status)
        for facet in NAMED_FACETS:
            if values := getattr(self, facet):
                chosen = chosen.filter(**{f"{facet}__in": values})
        for count in ("errors", "likely_failures"):
            if (has_any := getattr(self, count)) is not None:
                chosen = chosen.filter(**({f"{count}__gt": 0} if has_any else {count: 0}))
        return chosen

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
    facets: Mapping[str, Counter[str]]
    """By facet and value. Errors and likely failures have ``true`` and ``false``. Another tag narrows the
    list. Another agent or model widens it, so agents and models are counted as if none was chosen. So are
    the date ranges of ``DAYS`` and undated runs in ``date``.
    """


@limit_statements(LIST_SECONDS)
def facet_counts(sessions: SessionQuerySet, chosen: SessionCriteria) -> FacetCounts:
    """The counts of all facets. Takes two queries of the project's sessions.

    Raises:
        SearchTooSlow: if they take longer than :data:`LIST_SECONDS`.
    """
    groups = (
        sessions.search(chosen.q)
        .tagged(chosen.tag)
        .annotate(
            failed=_condition(Q(errors__gt=0)),
            likely=_condition(Q(likely_failures__gt=0)),
            bucket=_bucket(),
            is_in_time=_condition(chosen.in_time or Q(last_entry_at__isnull=False)),
        )
        .values_list("status", *NAMED_FACETS, "failed", "likely", "bucket", "is_in_time")
        .annotate(Count("pk"))
        .order_by()
    )
    total, facets = 0, {facet: Counter[str]() for facet in (*FACETS, "date")}
    matches = {name: dict[str, bool]() for name in _SINGLE}
    for *columns, failed, likely, bucket, is_in_time, count in groups.iterator():
        values = (*columns, _YES_NO[bool(failed)], _YES_NO[bool(likely)])
        misses = []
        for facet, value in zip(_SINGLE, values, strict=True):
            facet_matches = matches[facet]
            if value not in facet_matches:
                facet_matches[value] = _matches(chosen, facet, value)
            if not facet_matches[value]:
                misses.append((facet, value))
        if len(misses) + (not is_in_time) > 1:
            continue
        if not misses:
            for span in _BUCKETS[bucket]:
                facets["date"][span] += count
        if not is_in_time:
            continue
        for facet, value in misses or zip(_SINGLE, values, strict=True):
            facets[facet][value] += count
        if not misses:
            total += count
    facets["tag"] = _tag_counts(chosen.apply(sessions))
    return FacetCounts(total, facets)


def _tag_counts(sessions: SessionQuerySet) -> Counter[str]:
    """How many of the sessions have each tag. The newest are read, up to :data:`MAX_TAG_CHARACTERS`."""
    counts, characters = Counter[str](), 0
    for tags_text in sessions.with_tags().newest_first().values_list("tags_text", flat=True).iterator(500):
        counts.update(tags_text.split("\n")[1:-1])
        characters += len(tags_text)
        if characters > MAX_TAG_CHARACTERS:
            break
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


def _condition(condition: Q) -> "ExpressionWrapper[Q]":
    return ExpressionWrapper(condition, output_field=BooleanField())


def _matches(chosen: SessionCriteria, facet: str, value: str) -> bool:
    selected = getattr(chosen, facet)
    if facet == "status":
        return value == selected if selected not in ("", "all") else selected == "all" or value != "archived"
    if facet in NAMED_FACETS:
        return not selected or value in selected
    return selected is None or value == _YES_NO[selected]
