"""Which position and step of a session a page shows. The address of a page holds both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import cached_property

from dashboard.access import PersonRequest, find_session, projects, share_of
from dashboard.step_list.filter import NO_FILTER, FilterForm, read_filter
from dashboard.timeline.form import WHOLE_RUN, TimelineForm, read_timeline_form
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.text import clean
from historyapp.enqueue import ensure_name_index
from historyapp.models import Session, ShareLink, StepNote
from historyapp.models.history import History
from historyapp.models.landmarks import has_later_failure
from historyapp.models.relatives import Relatives, relatives_of
from historyapp.models.samples import count_steps
from historyapp.models.takes import Take
from historyapp.models.text_search import MAX_CHARACTERS
from historyapp.models.turns import steps_of_turn


@dataclass
class Location:
    """A session, a position and a step; ``step`` is 0 while the history has no steps."""

    history: History
    step: int
    filter: FilterForm = NO_FILTER
    """The filter of the step list."""
    timeline: TimelineForm = WHOLE_RUN
    """How the timeline is drawn. A part of the run always contains the step."""
    find: str = ""
    """The text to find in the session; empty: none."""
    session: Session = field(init=False)
    as_of: int | None = field(init=False)
    steps: int = field(init=False)
    url: str = field(init=False)
    """The session's page, without a query."""
    as_of_query: str = field(init=False)
    """``?as_of=12``, or empty for the current session."""
    as_of_parameter: str = field(init=False)
    """``&as_of=12``, for an address that has a query already."""
    find_parameter: str = field(init=False)
    """``&find=text``, for an address that has a query already; empty without a search."""
    kept: str = field(init=False)
    """Position, filter, timeline and search, which stay while the step changes. Appended to a query."""
    query: str = field(init=False)
    """The query string of the step and the kept fields, without a question mark."""
    address: str = field(init=False)
    previous: int = field(init=False)
    next: int = field(init=False)

    _has_index_run: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        history, step = self.history, self.step
        self.session, self.as_of, self.steps = history.session, history.as_of, history.steps
        self.url = reverse("session", args=[self.session.pk])
        self.as_of_parameter = "" if self.as_of is None else f"&as_of={self.as_of}"
        self.timeline = self.timeline.window(step, self.steps)
        self.find_parameter = f"&find={quote(self.find)}" if self.find else ""
        self.kept = f"{self.as_of_parameter}{self.filter.query}{self.timeline.query}{self.find_parameter}"
        self.as_of_query = self.as_of_parameter.replace("&", "?")
        self.query = f"step={step or -1}{self.kept}"
        self.address = self.address_of(step) if step else f"{self.url}{self.as_of_query}"
        self.previous, self.next = max(1, step - 1), min(self.steps, step + 1)

    def address_of(self, step: int) -> str:
        """The address of another step."""
        return f"{self.url}?step={step}{self.kept}"

    def unfiltered_address_of(self, step: int) -> str:
        """The address of another step in the list of all steps, for links from lists that have no filter."""
        return replace(self, filter=NO_FILTER).address_of(step)

    @property
    def overview_address(self) -> str:
        """The overview, whose links to the run lead back to the same step."""
        return f"{reverse('overview', args=[self.session.pk])}?step={self.step or -1}{self.as_of_parameter}"

    @property
    def is_shared(self) -> bool:
        """Whether the page is opened through a share link.

        It then shows only this session and changes nothing.
        """
        return self.history.visible.is_shared

    @property
    def shows_inputs(self) -> bool:
        """Whether the page shows what people wrote."""
        return self.history.visible.inputs

    @property
    def current_address(self) -> str:
        """The address of the same step, or of the newest one, in the current session."""
        if self.is_shared:
            return self.url
        step = min(self.step, self.session.steps)
        return f"{self.url}?step={step}" if step else self.url

    @property
    def kept_fields(self) -> list[tuple[str, str]]:
        """The kept fields except the search, as names and values for a form."""
        return parse_qsl(self.kept.removesuffix(self.find_parameter))

    @property
    def address_without_filter(self) -> str:
        """The address of the same step in the list of all steps."""
        return replace(self, filter=NO_FILTER).address

    @property
    def query_without_filter(self) -> str:
        """The query of the same step for pages without a step list: its filter ends there."""
        return replace(self, filter=NO_FILTER).query

    @property
    def kept_without_filter(self) -> list[tuple[str, str]]:
        """The kept fields except the filter, as names and values for the filter's form."""
        return parse_qsl(f"{self.as_of_parameter}{self.timeline.query}{self.find_parameter}")

    @property
    def address_without_find(self) -> str:
        """The address that ends the search."""
        return self.address.removesuffix(self.find_parameter)

    def address_of_take(self, take: Take) -> str:
        """The address of a take: as of when it was live, at its first step (the last step if it has none)."""
        return f"{self.url}?as_of={take.as_of}&step={take.after_step + 1 if take.steps else -1}"

    @cached_property
    def shared_steps(self) -> int:
        """The number of steps that a fork shares with its parent; 0 for other sessions."""
        return count_steps(self.session.shared_lineage)

    @property
    def parent_address(self) -> str:
        """The address of a fork's parent, at the newest step that both share.

        As of the time of the fork if the parent has been rewound, which may have cut the step off. A parent
        that is a fork too may begin after ``fork_position`` without a rewind: the fork then begins at a step
        that the parent shares with its own parent.
        """
        session, parent = self.session, self.session.forked_from
        if parent is None:
            return ""
        url = reverse("session", args=[session.forked_from_id])
        if parent.tail_start > session.fork_position and parent.tail_start > parent.fork_position + 1:
            return f"{url}?as_of={session.fork_position}&step=-1"
        return f"{url}?step={self.shared_steps}" if self.shared_steps else url

    @cached_property
    def relatives(self) -> Relatives:
        """The newest forks and sub-agents of the session. A share link leads to none."""
        return Relatives([], []) if self.is_shared else relatives_of(self.session)

    @cached_property
    def note_starts(self) -> list[tuple[int, str]]:
        """Step number and beginning of each note. If there are none, no further
        queries are needed. A share link shows none, because notes are for the project's members.
        """
        if self.is_shared:
            return []
        return StepNote.objects.starts_between(self.session, self.history.lineage, 1, self.steps)

    @cached_property
    def turn_steps(self) -> range | None:
        """The steps of the turn that the filter names; None without one."""
        turn = self.filter.step_filter.turn
        return None if turn is None else steps_of_turn(self.history, turn)

    def index_names(self) -> None:
        """Completes the index of names once, if the filter needs it.

        Names that a worker indexes later are found by later requests.
        """
        if self.filter.names and not self._has_index_run:
            ensure_name_index(self.history)
            self._has_index_run = True

    @cached_property
    def note(self) -> StepNote | None:
        """The bookmark on the step, or None."""
        if self.step not in dict(self.note_starts):
            return None
        row = self.history.row(self.step)
        return StepNote.objects.at(self.history.lineage, [row.first_position]).get(self.step)

    @property
    def only_errors(self) -> bool:
        """Whether jumps lead only to reported errors, because the list shows only these."""
        return self.filter.status == "error"

    @property
    def is_counting(self) -> bool:
        """Whether a worker is still computing the kinds and likely failures of the session's steps."""
        return hasattr(self.session, "stale_outcomes")

    @cached_property
    def has_later_failure(self) -> bool:
        """Whether a later step failed or likely failed, as far as jumps lead to these.

        True while that is unknown; the jump itself then says so.
        """
        if self.is_counting and not self.only_errors:
            return True
        return has_later_failure(self.history, self.step, likely=not self.only_errors)


def find_location(request: PersonRequest, session_id: UUID, step: int | None = None) -> Location:
    """The location at ``step`` (argument or address) and ``as_of``; by default the first step, or the first
    step after the fork point.

    Raises:
        NotFound: when the person cannot see the session or it has no such step; -1 is the newest.
        Invalid: when ``step`` or ``as_of`` is not a number.
    """
    history = find_history(request, session_id)
    filter, timeline = read_filter(request.GET), read_timeline_form(request.GET)
    if share_of(request) is not None:
        filter = replace(filter, noted="", names="")  # notes of members, and an index that is built on demand
    find = clean(request.GET.get("find", "")).strip()[:MAX_CHARACTERS]
    if step is None:
        step = read_number(request.GET, "step")
    if step in (None, 0, -1) and not history.steps:
        return Location(history, 0, filter, timeline, find)
    location = Location(history, history.resolve(1 if step is None else step), filter, timeline, find)
    if step is None and location.session.forked_from_id is not None:
        return replace(location, step=min(location.shared_steps + 1, location.steps))
    return location


def find_history(request: PersonRequest, session_id: UUID) -> History:
    """The history of a session as of the position in the address, or in the share link.

    Raises:
        NotFound: when the person cannot see the session, or the share link does not show the position.
        Invalid: when the position is not a number, or lies beyond the head.
    """
    session, share = find_session(request, session_id), share_of(request)
    as_of = read_number(request.GET, "as_of")
    if share is None:
        return History(session, as_of)
    as_of = share.as_of if as_of is None else as_of
    is_later = as_of is not None and share.as_of is not None and as_of > share.as_of
    if is_later or (as_of != share.as_of and not share.with_takes):
        raise NotFound(f"This link does not show position {as_of}.")
    return History(session, as_of, share.visible)


def newest_step(session: Session, share: ShareLink | None = None) -> Location:
    """The newest step of the current session, or the newest step that a share link shows."""
    history = History(session, share.as_of, share.visible) if share else History(session)
    return Location(history, history.steps)


def page_context(request: PersonRequest, location: Location) -> dict[str, Any]:
    """The context of every page about a session."""
    session = location.session
    own_projects = projects(request)
    return {"location": location, "session": session, "project": session.project, "projects": own_projects}


def render_fragment(
    request: PersonRequest, template: str, location: Location, shown: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """A part of a session's page for htmx, with status 200. Without htmx: on a page of its own."""
    if request.htmx:
        return render(request, template, {"location": location, **shown})
    base = {"location": location, "session": location.session}
    context = (base if location.is_shared else page_context(request, location)) | {**shown, "part": template}
    return render(request, "layout/fragment_page.html", context, status=status)


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
