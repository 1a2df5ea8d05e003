"""The filter of the step list, as the form and the address of a page hold it."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from urllib.parse import urlencode

from django.http import QueryDict

from historyapp.core.call_subjects import KINDS
from historyapp.core.errors import Invalid
from historyapp.core.text import clean
from historyapp.models.origins import FLAGS
from historyapp.models.step_filters import STATUS_FILTERS, StepFilter
from historyapp.models.text_search import MAX_CHARACTERS
from historyapp.services.append import as_utc


@dataclass(frozen=True, slots=True)
class FilterForm:
    """The fields as they were filled in; empty ones do not filter. Addresses use the same names."""

    status: str = ""
    kind: str = ""
    tool: str = ""
    turn: str = ""
    file: str = ""
    edited: str = ""
    """``1``, with a file: only steps that edit it."""
    text: str = ""
    since: str = ""
    until: str = ""
    names: str = ""
    noted: str = ""
    """``1``: only steps with a bookmark or a note."""

    @property
    def active(self) -> dict[str, str]:
        """The fields that filter, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name))}

    @property
    def query(self) -> str:
        """For an address that has a query already; empty without a filter."""
        return f"&{urlencode(self.active)}" if self.active else ""

    def toggled(self, name: str, value: str) -> "FilterForm":
        """The filter with this value in a field, or without it if the field has it already."""
        changed = replace(self, **{name: "" if getattr(self, name) == value else value})
        return changed if changed.file else replace(changed, edited="")

    @property
    def step_filter(self) -> StepFilter:
        """The filter itself.

        Raises:
            Invalid: when the status or the kind is unknown, a text is too long or a time cannot be parsed.
        """
        if self.status and self.status not in STATUS_FILTERS:
            raise Invalid(f"status must be one of {', '.join(STATUS_FILTERS)}.")
        if self.kind and self.kind not in KINDS:
            raise Invalid(f"kind must be one of {', '.join(KINDS)}.")
        if self.names and self.names not in FLAGS:
            raise Invalid(f"names must be one of {', '.join(FLAGS)}.")
        for name in ("file", "edited", "text", "tool", "noted", "since", "until"):
            if len(getattr(self, name)) > MAX_CHARACTERS:
                raise Invalid(f"{name} must have at most {MAX_CHARACTERS} characters.")
        if self.turn and not (self.turn.isascii() and self.turn.isdigit() and len(self.turn) < 10):
            raise Invalid("turn must be the number of a turn.")
        return StepFilter(
            status=self.status or None,
            tool=self.tool or None,
            since=self._time("since"),
            until=self._time("until"),
            noted=bool(self.noted),
            kind=self.kind or None,
            turn=int(self.turn) if self.turn else None,
            file=self.file or None,
            edited=bool(self.edited and self.file),
            names=self.names or None,
            text=self.text or None,
        )

    def _time(self, name: str) -> datetime | None:
        text = getattr(self, name)
        try:
            return as_utc(datetime.fromisoformat(text)) if text else None
        except (ValueError, OverflowError):
            raise Invalid(f"{name} must be a date and time in UTC, such as 2026-01-31T09:30.") from None


NO_FILTER = FilterForm()


def read_filter(query: QueryDict) -> FilterForm:
    """The filter in an address. ``edited`` without a file is left out."""
    values = {field.name: clean(query.get(field.name, "")).strip() for field in fields(FilterForm)}
    return FilterForm(**values | ({} if values["file"] else {"edited": ""}))
