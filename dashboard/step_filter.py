"""The filter of the step list, as the form and the address of a page hold it."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import QueryDict

from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models.step_filters import STATUS_FILTERS, StepFilter
from historyapp.services.append import as_utc


@dataclass(frozen=True, slots=True)
class FilterForm:
    """The fields as they were filled in; empty ones do not filter."""

    status: str = ""
    tool: str = ""
    since: str = ""
    until: str = ""
    noted: str = ""
    """``1``: only steps with a bookmark or a note."""

    @property
    def query(self) -> str:
        """For an address that has a query already; empty without a filter."""
        fields = {
            "status": self.status,
            "tool": self.tool,
            "since": self.since,
            "until": self.until,
            "noted": self.noted,
        }
        given = {name: value for name, value in fields.items() if value}
        return f"&{urlencode(given)}" if given else ""

    @property
    def step_filter(self) -> StepFilter:
        """The filter itself.

        Raises:
            Invalid: when the status is unknown or a time cannot be parsed.
        """
        if self.status and self.status not in STATUS_FILTERS:
            raise Invalid(f"status must be one of {', '.join(STATUS_FILTERS)}.")
        times: dict[str, datetime] = {}
        for name, text in (("since", self.since), ("until", self.until)):
            try:
                times |= {name: as_utc(datetime.fromisoformat(text))} if text else {}
            except (ValueError, OverflowError):
                raise Invalid(f"{name} must be a date and time in UTC, as in 2026-01-31T09:30.") from None
        return StepFilter(
            self.status or None, self.tool or None, times.get("since"), times.get("until"), bool(self.noted)
        )


NO_FILTER = FilterForm()


def read_filter(query: QueryDict) -> FilterForm:
    """The filter in an address."""
    names = ("status", "tool", "since", "until", "noted")
    return FilterForm(*(clean(query.get(name, "")).strip() for name in names))
