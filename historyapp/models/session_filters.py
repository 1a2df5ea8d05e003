"""The filters of the list of sessions, and how many sessions each further filter would leave."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from django.db.models import BooleanField, Count, ExpressionWrapper, Q

from historyapp.core.dates import UNDATED
from historyapp.models.sessions import SessionQuerySet

NAMED_FACETS = ("agent", "model", "repository", "folder")
"""Columns with a name. Several names of one facet find the sessions of any of them."""
FACETS = ("status", *NAMED_FACETS, "tag", "errors", "likely_failures")
MOST_VALUES = 20
"""Values of one facet that a list can be filtered by."""
_YES_NO = {True: "true", False: "false"}


@dataclass(frozen=True, slots=True)
class SessionCriteria:
    """What the sessions of a list have in common. The default: all that are not archived."""

    q: str = ""
    status: str = ""
    """Empty: all but archived ones; ``all``: those, too."""
    agent: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    """All of them, in exactly this case."""
    errors: bool | None = None
    likely_failures: bool | None = None
    first: date | None = None
    """The first day, in UTC, of the newest entries. Undated runs are of no day."""
    last: date | None = None
    undated: bool | None = None

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match."""
        found = self._of_text_and_time(sessions).tagged(self.tag)
        if not self.status:
            found = found.exclude(status="archived")
        elif self.status != "all":
            found = found.filter(status=self.status)
        for facet in NAMED_FACETS:
            if values := getattr(self, facet):
                found = found.filter(**{f"{facet}__in": values})
        for count in ("errors", "likely_failures"):
            if (wanted := getattr(self, count)) is not None:
                found = found.filter(**({f"{count}__gt": 0} if wanted else {count: 0}))
        return found

    def _of_text_and_time(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match what is not a facet."""
        found = sessions.search(self.q)
        if self.undated is not None:
            found = (
                found.filter(last_entry_at=UNDATED) if self.undated else found.exclude(last_entry_at=UNDATED)
            )
        if self.first is not None or self.last is not None:
            begin = datetime.combine(self.first, datetime.min.time(), UTC) if self.first else UNDATED
            found = found.filter(last_entry_at__gte=begin).exclude(last_entry_at=UNDATED)
        if self.last is not None and self.last < date.max:
            end = datetime.combine(self.last + timedelta(days=1), datetime.min.time(), UTC)
            found = found.filter(last_entry_at__lt=end)
        return found


class FacetCounts(NamedTuple):
    """How many sessions a list has, and how many it would have with one further value of a facet."""

    total: int
    facets: Mapping[str, Counter[str]]
    """By facet and value: ``true`` and ``false`` for errors and likely failures. Tags narrow the list; a
    further agent or model widens it, so these are counted as if none of theirs was chosen."""


def facet_counts(sessions: SessionQuerySet, chosen: SessionCriteria) -> FacetCounts:
    """The counts of all facets, by one query over the project's sessions and none over their entries."""
    found = chosen._of_text_and_time(sessions)
    groups = (
        found.annotate(failed=_above_zero("errors"), likely=_above_zero("likely_failures"))
        .values_list("status", *NAMED_FACETS, "tags_text", "failed", "likely")
        .annotate(Count("pk"))
        .order_by()
    )
    total, facets = 0, {facet: Counter[str]() for facet in FACETS}
    for status, agent, model, repository, folder, tags_text, failed, likely, count in groups:
        tags = [tag for tag in tags_text.split("\n") if tag]
        values = {
            "status": status, "agent": agent, "model": model, "repository": repository, "folder": folder,
            "errors": _YES_NO[bool(failed)], "likely_failures": _YES_NO[bool(likely)],
        }  # fmt: skip
        misses = [facet for facet, value in values.items() if not _matches(chosen, facet, value)]
        if len(misses) > 1 or not set(chosen.tag) <= set(tags):
            continue
        for facet in misses or values:
            facets[facet][values[facet]] += count
        if not misses:
            total += count
            facets["tag"].update(dict.fromkeys(tags, count))
    return FacetCounts(total, facets)


def _above_zero(column: str) -> "ExpressionWrapper[Q]":
    return ExpressionWrapper(Q(**{f"{column}__gt": 0}), output_field=BooleanField())


def _matches(chosen: SessionCriteria, facet: str, value: str) -> bool:
    wanted = getattr(chosen, facet)
    if facet == "status":
        return value == wanted if wanted not in ("", "all") else wanted == "all" or value != "archived"
    if facet in NAMED_FACETS:
        return not wanted or value in wanted
    return wanted is None or value == _YES_NO[wanted]
