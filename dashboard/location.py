"""Which position and step of a session a page shows. The address of a page holds both."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from dashboard.access import PersonRequest, find_session, projects
from dashboard.step_filter import NO_FILTER, FilterForm, read_filter
from historyapp.core.errors import Invalid
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.takes import Take


@dataclass(frozen=True)
class Location:
    """``step`` is 0 while the history has none."""

    history: History
    step: int
    filter: FilterForm = NO_FILTER
    """Of the step list."""

    @property
    def session(self) -> Session:
        return self.history.session

    @property
    def as_of(self) -> int | None:
        return self.history.as_of

    @property
    def steps(self) -> int:
        return self.history.steps

    @cached_property
    def url(self) -> str:
        """The session's page, without a query."""
        return reverse("session", args=[self.session.pk])

    @property
    def as_of_query(self) -> str:
        """``?as_of=12``, or empty for the current session."""
        return "" if self.as_of is None else f"?as_of={self.as_of}"

    @property
    def as_of_parameter(self) -> str:
        """``&as_of=12``, for an address that has a query already."""
        return self.as_of_query.replace("?", "&")

    @property
    def query(self) -> str:
        """Step, position and filter, without a question mark."""
        return f"step={self.step or -1}{self.as_of_parameter}{self.filter.query}"

    def address_of(self, step: int) -> str:
        """The address of another step."""
        return f"{self.url}?step={step}{self.as_of_parameter}{self.filter.query}"

    def address_of_take(self, take: Take) -> str:
        """The address of a take: as of when it was live, at its first step (the last if it has none)."""
        return f"{self.url}?as_of={take.as_of}&step={take.after_step + 1 if take.steps else -1}"

    @property
    def address(self) -> str:
        return self.address_of(self.step) if self.step else f"{self.url}{self.as_of_query}"

    @property
    def previous(self) -> int:
        return max(1, self.step - 1)

    @property
    def next(self) -> int:
        return min(self.steps, self.step + 1)

    @cached_property
    def next_error(self) -> int | None:
        """The next step that ended in an error, or None."""
        return self.history.next_error(self.step)


def find_location(request: PersonRequest, session_id: UUID, step: int | None = None) -> Location:
    """The location that ``step`` (given, or in the address) and ``as_of`` name; by default the first step.

    Raises:
        NotFound: when the person cannot see the session or it has no such step; -1 is the newest.
        Invalid: when ``step`` or ``as_of`` is not a number.
    """
    history = History(find_session(request, session_id), read_number(request.GET, "as_of"))
    filter = read_filter(request.GET)
    if step is None:
        step = read_number(request.GET, "step")
    if step in (None, 0, -1) and not history.steps:
        return Location(history, 0, filter)
    return Location(history, history.resolve(1 if step is None else step), filter)


def newest_step(session: Session) -> Location:
    """The newest step of a session as it stands."""
    history = History(session)
    return Location(history, history.steps)


def page_context(request: PersonRequest, location: Location) -> dict[str, Any]:
    """What every page about a session needs."""
    session = location.session
    return {
        "location": location,
        "session": session,
        "project": session.project,
        "projects": projects(request),
    }


def render_fragment(
    request: PersonRequest, template: str, location: Location, shown: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """A part of a session's page for htmx, where the status is 200; without htmx on a page of its own."""
    if request.htmx:
        return render(request, template, {"location": location, **shown})
    context = page_context(request, location) | {**shown, "part": template}
    return render(request, "fragment_page.html", context, status=status)


def read_number(query: QueryDict, name: str) -> int | None:
    """A whole number from an address or a form; None when the field is missing or empty.

    Raises:
        Invalid: when it is something else.
    """
    text = query.get(name, "").strip()
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise Invalid(f"{name} must be a whole number.")
    return int(text)
