"""The filters and the order in the address of the list of sessions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict
from django.utils.http import urlencode

from historyapp.core.dates import UNDATED
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models.session_lists import Order
from historyapp.models.sessions import SessionQuerySet

STATUSES = ("live", "finished", "archived")
FILTERS = ("q", "status", "errors", "date")


@dataclass(frozen=True, slots=True)
class SessionFilters:
    """The filters in the address; empty ones do not filter."""

    q: str = ""
    status: str = ""
    """Empty: all but archived ones."""
    errors: str = ""
    """``with`` or ``without``."""
    date: str = ""
    """``undated``: only runs whose transcript has no times."""
    order: Order | None = None
    """Null: as the person has chosen."""

    @classmethod
    def read(cls, query: QueryDict) -> "SessionFilters":
        """The filters of an address.

        Raises:
            Invalid: when one has no such value.
        """
        status, errors, date = (query.get(name, "") for name in FILTERS[1:])
        is_known = status in ("", *STATUSES) and errors in ("", "with", "without")
        if not is_known or date not in ("", "undated"):
            names = ", ".join(STATUSES)
            raise Invalid(f"status must be one of {names}, errors with or without, and date undated.")
        sort = query.get("sort", "")
        q = clean(query.get("q", ""))[:200].strip()
        return cls(q, status, errors, date, Order.parse(sort) if sort else None)

    def given(self) -> Iterator[tuple[str, str]]:
        """Names and values of the filters in the address."""
        for name in FILTERS:
            if value := getattr(self, name):
                yield name, value

    @property
    def filters_anything(self) -> bool:
        return any(True for _ in self.given())

    @property
    def query(self) -> str:
        """As a query string without its question mark."""
        order = [("sort", str(self.order))] if self.order else []
        return urlencode([*self.given(), *order])

    @property
    def query_prefix(self) -> str:
        """The beginning of a query string: ``q=totals&``, or empty."""
        return f"{self.query}&" if self.query else ""

    def but(self, **changes: Any) -> "SessionFilters":
        """The same with other values."""
        return replace(self, **changes)

    def apply(self, sessions: SessionQuerySet) -> SessionQuerySet:
        """The sessions that match."""
        found = sessions.search(self.q)
        found = found.filter(status=self.status) if self.status else found.exclude(status="archived")
        if self.errors:
            found = found.filter(errors__gt=0) if self.errors == "with" else found.filter(errors=0)
        return found.filter(last_entry_at=UNDATED) if self.date else found
