"""The filter of a step list, as the address of a page and the form have it."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import QueryDict

from historyapp.core.episodes import STATUSES
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models.step_filters import StepFilter
from historyapp.services.append import as_utc


@dataclass(frozen=True, slots=True)
class ShownFilter:
    """What a person asks for, as they wrote it; empty where they ask for nothing."""

    status: str = ""
    tool: str = ""
    since: str = ""
    until: str = ""

    @property
    def fields(self) -> dict[str, str]:
        given = {"status": self.status, "tool": self.tool, "since": self.since, "until": self.until}
        return {name: value for name, value in given.items() if value}

    @property
    def query(self) -> str:
        """For an address that has a query already; empty without a filter."""
        return f"&{urlencode(self.fields)}" if self.fields else ""

    @property
    def wanted(self) -> StepFilter:
        """The filter itself.

        Raises:
            Invalid: when a status or a time is none.
        """
        if self.status and self.status not in STATUSES:
            raise Invalid(f"status must be one of {', '.join(STATUSES)}.")
        times = _moment("since", self.since), _moment("until", self.until)
        return StepFilter(self.status or None, self.tool or None, *times)


NO_FILTER = ShownFilter()


def filter_of(query: QueryDict) -> ShownFilter:
    """The filter in an address."""
    given = (clean(query.get(name, "")).strip() for name in ("status", "tool", "since", "until"))
    return ShownFilter(*given)


def _moment(name: str, text: str) -> datetime | None:
    try:
        return as_utc(datetime.fromisoformat(text)) if text else None
    except (ValueError, OverflowError):
        raise Invalid(f"{name} must be a date and time in UTC, as in 2026-01-31T09:30.") from None
