"""Where somebody looks: a session, as of a position, at a step. The address of a page holds all three."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

from dashboard.access import PersonRequest, find_session, projects
from dashboard.step_filter import NO_FILTER, ShownFilter, filter_of
from historyapp.core.errors import Invalid
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.takes import Take


@dataclass(frozen=True)
class Place:
    """``step`` is 0 while the history has none."""

    history: History
    step: int
    filter: ShownFilter = NO_FILTER
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
        """The session's page, without a position."""
        return reverse("session", args=[self.session.pk])

    @property
    def only_as_of(self) -> str:
        """The query that keeps the position; empty in the present."""
        return "" if self.as_of is None else f"?as_of={self.as_of}"

    @property
    def and_as_of(self) -> str:
        """The same for an address that has a query already."""
        return self.only_as_of.replace("?", "&")

    @property
    def query(self) -> str:
        """Step and position, without a question mark."""
        return f"step={self.step or -1}{self.and_as_of}{self.filter.query}"

    def at(self, step: int) -> str:
        """The address of another step."""
        return f"{self.url}?step={step}{self.and_as_of}{self.filter.query}"

    @property
    def unfiltered(self) -> "Place":
        """The same place with the whole list."""
        return Place(self.history, self.step)

    def of_take(self, take: Take) -> str:
        """Where a take is looked at: as of when it was live, at its first step (the last if it has none)."""
        return f"{self.url}?as_of={take.as_of}&step={take.after_step + 1 if take.steps else -1}"

    @property
    def here(self) -> str:
        return self.at(self.step) if self.step else f"{self.url}{self.only_as_of}"

    @property
    def back(self) -> int:
        return max(1, self.step - 1)

    @property
    def forward(self) -> int:
        return min(self.steps, self.step + 1)

    @cached_property
    def next_error(self) -> int | None:
        """The next step that ended in an error; None when none follows."""
        return self.history.next_error(self.step)


def place_of(request: PersonRequest, session_id: UUID, step: int | None = None) -> Place:
    """The place that ``step`` (given, or in the address) and ``as_of`` name. It begins at the first step.

    Raises:
        NotFound: when the person has no such session or it has no such step; -1 is the newest.
        Invalid: when a number is none.
    """
    session = find_session(request, session_id)
    history = History(session, whole_number(request.GET, "as_of"))
    filter = filter_of(request.GET)
    if step is None:
        step = whole_number(request.GET, "step")
    if step in (None, 0, -1) and not history.steps:
        return Place(history, 0, filter)
    return Place(history, history.resolve(1 if step is None else step), filter)


def page_context(request: PersonRequest, place: Place) -> dict[str, Any]:
    """What every page about a session needs."""
    session = place.session
    return {"place": place, "session": session, "project": session.project, "projects": projects(request)}


def whole_number(query: QueryDict, name: str) -> int | None:
    """A number from an address or a form; None when it is not given.

    Raises:
        Invalid: when it is something else.
    """
    text = query.get(name, "").strip()
    if not text:
        return None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise Invalid(f"{name} must be a whole number.")
    return sign * int(digits)
