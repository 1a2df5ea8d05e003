"""The filters and the order in the address of the list of sessions."""

import datetime
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from historyapp.core.errors import Invalid
from historyapp.core.run_places import MAX_PLACE
from historyapp.core.search_query import MAX_CHARACTERS
from historyapp.core.text import clean
from historyapp.models.session_filters import (
    DAYS,
    MAX_VALUES,
    NAMED_FACETS,
    UNDATED_RUNS,
    SessionCriteria,
)
from historyapp.models.session_folds import children_of
from historyapp.models.session_groups import GROUPINGS
from historyapp.models.session_lists import Order
from historyapp.models.sessions import SessionQuerySet

WITH = {"with": True, "without": False, "": None}
CHOICES = {
    "status": ("", "live", "finished", "archived", "all"),
    "errors": tuple(WITH),
    "failures": tuple(WITH),
    "date": ("", *DAYS, UNDATED_RUNS),
}
"""Filters with one value, and the allowed values; empty turns the filter off."""
SEVERAL = (*NAMED_FACETS, "tag")
"""Filters that may have several values."""
MAX_FILTERS = 3_000
"""The maximum number of characters of these filters: each of some 200 links of a page repeats them."""


@dataclass(frozen=True, slots=True)
class SessionFilters:
    """The filters in the address; empty ones do not filter."""

    q: str = ""
    status: str = ""
    """Empty: all except archived sessions."""
    errors: str = ""
    """``with`` or ``without``."""
    failures: str = ""
    """The same for likely failures."""
    date: str = ""
    """``undated``: only runs whose transcript has no times; otherwise the name of a range that ends today."""
    agent: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    found: "Collection[UUID] | QuerySet[Any, Any] | None" = None
    """The sessions in which steps match ``q``; null: ``q`` has only words."""
    parent: UUID | None = None
    """Only forks and sub-agents of this session."""
    first: datetime.date | None = None
    last: datetime.date | None = None
    order: Order | None = None
    """Null: the order that the person has chosen."""
    group: str = ""
    """The column by which sessions are grouped; empty: they are not."""
    opened: str | None = None
    """The value of the group whose sessions are shown; null: only the groups are."""

    @classmethod
    def read(cls, query: QueryDict) -> "SessionFilters":
        """The filters of an address.

        Raises:
            Invalid: when a filter has a value that does not exist.
        """
        values_by_name: dict[str, Any] = {name: query.get(name, "") for name in CHOICES}
        for name, value in values_by_name.items():
            if value not in CHOICES[name]:
                raise Invalid(f"{name} must be one of {', '.join(filter(None, CHOICES[name]))}.")
        for name in SEVERAL:
            values = {clean(value)[:MAX_PLACE] for value in query.getlist(name) if value.strip()}
            if len(values) > MAX_VALUES:
                raise Invalid(f"{name} has {len(values)} values. Use at most {MAX_VALUES}.")
            values_by_name[name] = tuple(sorted(values))
        if sum(len(value) for name in SEVERAL for value in values_by_name[name]) > MAX_FILTERS:
            raise Invalid(f"The filters have more than {MAX_FILTERS} characters. Remove some of them.")
        first, last = _day("from", query), _day("to", query)
        if first and last and last < first:
            raise Invalid(f"`to` is {last}, which is before `from`, {first}. Swap them.")
        if first or last:
            values_by_name["date"] = ""
        parent = query.get("parent", "")
        try:
            values_by_name["parent"] = UUID(parent) if parent else None
        except ValueError:
            raise Invalid("parent must be the ID of a session.") from None
        sort = query.get("sort", "")
        order = Order.parse(sort) if sort else None
        values_by_name["group"] = group = query.get("group", "")
        if group not in ("", *GROUPINGS):
            raise Invalid(f"group must be one of {', '.join(GROUPINGS)}.")
        if group and "open" in query:
            values_by_name["opened"] = clean(query.get("open", ""))[:MAX_PLACE]
        return cls(
            clean(query.get("q", ""))[:MAX_CHARACTERS].strip(),
            first=first,
            last=last,
            order=order,
            **values_by_name,
        )

    def active(self) -> Iterator[tuple[str, str]]:
        """Names and values of the filters in the address."""
        for name in ("q", *CHOICES, *SEVERAL):
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if item:
                    yield name, item
        for name, other in (("from", self.first), ("to", self.last), ("parent", self.parent)):
            if other:
                yield name, str(other)

    @property
    def has_filters(self) -> bool:
        return any(True for _ in self.active())

    def hidden(self, *left_out: str) -> list[tuple[str, str]]:
        """Names and values that a form sends in addition to its own fields."""
        layout = [("sort", str(self.order))] if self.order else []
        layout += [("group", self.group)] if self.group else []
        layout += [("open", self.opened)] if self.opened is not None else []
        return [(name, value) for name, value in (*self.active(), *layout) if name not in left_out]

    @property
    def params_without_search(self) -> list[tuple[str, str]]:
        return self.hidden("q")

    @property
    def params_without_days(self) -> list[tuple[str, str]]:
        return self.hidden("from", "to", "date")

    @property
    def query(self) -> str:
        """As a query string without its question mark."""
        return urlencode(self.hidden())

    @property
    def query_prefix(self) -> str:
        """The beginning of a query string: ``q=totals&``, or empty."""
        return f"{self.query}&" if self.query else ""

    def removed(self) -> "SessionFilters":
        """No filters, with the same order and grouping."""
        return SessionFilters(order=self.order, group=self.group, opened=self.opened)

    def but(self, **changes: Any) -> "SessionFilters":
        """The same with other values."""
        return replace(self, **changes)

    def toggled(self, name: str, value: str) -> "SessionFilters":
        """The same with a value of a filter, or without it if it is chosen."""
        if name in SEVERAL:
            return self.but(**{name: tuple(sorted({value} ^ set(getattr(self, name))))})
        days = {"first": None, "last": None} if name == "date" else {}
        return self.but(**{name: "" if getattr(self, name) == value else value}, **days)

    def has(self, name: str, value: str) -> bool:
        """Whether a value of a filter is chosen."""
        chosen = getattr(self, name)
        return value in chosen if isinstance(chosen, tuple) else value == chosen

    @property
    def criteria(self) -> SessionCriteria:
        """The criteria for the database query."""
        first = self.first
        if days := DAYS.get(self.date):
            first = timezone.now().astimezone(datetime.UTC).date() - datetime.timedelta(days=days - 1)
        return SessionCriteria(
            q=self.q if self.found is None else "",
            status=self.status,
            agent=self.agent,
            model=self.model,
            repository=self.repository,
            folder=self.folder,
            tag=self.tag,
            errors=WITH[self.errors],
            likely_failures=WITH[self.failures],
            first=first,
            last=self.last,
            undated=True if self.date == UNDATED_RUNS else None,
        )

    def within(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that facets count: those of the parent, and those that a search of steps found."""
        if self.found is not None:
            sessions = sessions.filter(pk__in=self.found)
        return children_of(sessions, self.parent) if self.parent else sessions

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match."""
        return self.criteria.apply(self.within(sessions))


def list_url(filters: SessionFilters) -> str:
    """The address of the list with these filters."""
    query = filters.query
    return f"{reverse('sessions')}?{query}" if query else reverse("sessions")


def _day(name: str, query: QueryDict) -> datetime.date | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        if len(text) == len("2026-01-31"):
            return datetime.date.fromisoformat(text)
    except ValueError:
        pass
    raise Invalid(f"{name} must be a day, such as 2026-01-31.")
