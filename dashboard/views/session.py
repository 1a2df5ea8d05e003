"""The session page: strip, playhead, the steps around it and the step under it."""

from dataclasses import dataclass, replace
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.found_rows import FoundRows, found_after, found_around, found_before
from dashboard.place import Place, page_context, place_of, whole_number
from dashboard.rendering.step import load_inputs, load_step
from dashboard.step_filter import filter_of
from dashboard.strip import draw_strip
from dashboard.tabs import TABS
from dashboard.views.context import form_context
from dashboard.views.rewinds import standing_rewind
from historyapp.core.episodes import STATUSES
from historyapp.core.errors import Invalid
from historyapp.core.exporters import EXPORTERS
from historyapp.core.text import clean
from historyapp.models import CompressionRun, Entry, Episode, Session, Summary
from historyapp.models.history import History
from historyapp.models.takes import Take, takes
from historyapp.services.sessions import change_session

AROUND = 25
"""Rows before and after the playhead; scrolling loads as many again."""
RELATIVES = 20
"""Forks and sub-agents that are listed."""
TITLE = 300
"""Characters that a title may have, as in the API."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A window of the step list."""

    place: Place
    rows: list[tuple[Episode, list[Take], Summary | None]]
    """Each step with the takes that branch off after it, and what stands for it in short."""
    first_takes: list[Take]
    """Those that branch off before the first step."""
    leads_back: bool = True
    leads_on: bool = True
    """Whether it offers what comes before, and after it: rows put into a list do so at its ends only."""

    @property
    def first(self) -> int:
        return self.rows[0][0].number if self.rows else 0

    @property
    def last(self) -> int:
        return self.rows[-1][0].number if self.rows else 0

    @property
    def before(self) -> int:
        """Where a reader without scripts goes on towards the first step."""
        return max(1, self.first - AROUND)

    @property
    def after(self) -> int:
        return min(self.place.steps, self.last + AROUND)

    @property
    def is_complete(self) -> bool:
        """Whether it reaches the newest step, after which the list ends."""
        return self.last >= self.place.steps


def window(place: Place, first: int, last: int, found: list[Take]) -> Rows:
    """Steps ``first`` to ``last`` as far as they exist."""
    rows = place.history.rows(first, last)
    after: dict[int, list[Take]] = {}
    for take in found:
        after.setdefault(take.after_step, []).append(take)
    first_takes = after.get(0, []) if first <= 1 else []
    marks = marks_of(place, rows)
    return Rows(place, [(row, after.get(row.number, []), marks.get(row.number)) for row in rows], first_takes)


def marks_of(place: Place, rows: list[Episode]) -> dict[int, Summary]:
    """For each step that is summarised its summary without the text: the narrowest, of these the newest."""
    if not rows:
        return {}
    history, positions = place.history, (rows[0].first_position, rows[-1].last_position)
    found = Summary.objects.marks(history.session, history.lineage, positions, history.as_of)
    found.sort(key=lambda mark: (mark.first_step - mark.last_step, mark.pk))
    first, last = rows[0].number, rows[-1].number
    return {
        number: mark
        for mark in found
        for number in range(max(first, mark.first_step), min(last, mark.last_step) + 1)
    }


@signed_in
@require_safe
def session(request: PersonRequest, session_id: UUID) -> HttpResponse:
    place = place_of(request, session_id)
    history, found = place.history, takes(place.history)
    context = {
        **page_context(request, place),
        "strip": draw_strip(place, found),
        **_list(place, found),
        "step": load_step(history, place.step) if place.step else None,
        "inputs": [] if place.step else load_inputs(history),
        "fork_step": _fork_step(place.session),
        "forks": place.session.forks.order_by("created_at")[:RELATIVES],
        "subagents": place.session.subagents.order_by("created_at")[:RELATIVES],
        "rewind": standing_rewind(request, place),
        "compressing": _under_way(place),
        "formats": EXPORTERS.values(),
        "longest_title": TITLE,
        "tabs": TABS.values(),
        **form_context(place),
    }
    return render(request, "session_detail.html", context)


def _list(place: Place, takes: list[Take]) -> dict[str, object]:
    """The rows around the playhead: of all steps, or of those that match the filter."""
    if place.filter.fields:
        return {"found": found_around(place, place.step), "statuses": STATUSES}
    return {"rows": window(place, place.step - AROUND, place.step + AROUND, takes), "statuses": STATUSES}


def _under_way(place: Place) -> CompressionRun | None:
    """The compression that is being carried out; None in the past."""
    if place.as_of is not None:
        return None
    return place.session.compression_runs.active().filter(trial=False).first()


def _fork_step(session: Session) -> int | None:
    """The parent's step after which the session was forked; None when it is no fork."""
    if session.forked_from_id is None:
        return None
    newest = Entry.objects.live(session.lineage(session.fork_position), newest_first=True, limit=1)
    return next((entry.running_totals.steps for entry in newest), 0)


@signed_in
@require_safe
def steps(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Rows of the step list: those after or before a step, or those around one."""
    place = place_of(request, session_id)
    after, before, around = (whole_number(request.GET, name) for name in ("after", "before", "around"))
    if not request.htmx:
        return redirect(place.at(max(1, after or before or around or 1)))
    if place.filter.fields:
        return render(request, "_found_rows.html", {"found": _found(place, after, before, around or 1)})
    if after is not None:
        first, last = after + 1, after + AROUND
    elif before is not None:
        first, last = before - AROUND, before - 1
    else:
        first, last = (around or 1) - AROUND, (around or 1) + AROUND
    rows = window(place, first, last, takes(place.history))
    rows = replace(rows, leads_back=after is None, leads_on=before is None)
    return render(request, "_episode_rows.html", {"rows": rows, "place": place})


def _found(place: Place, after: int | None, before: int | None, around: int) -> FoundRows:
    if after is not None:
        return found_after(place, after)
    return found_around(place, around) if before is None else found_before(place, before)


@signed_in
@require_safe
def take(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """The first steps of the take that the rewind at a position cut off."""
    session = find_session(request, session_id)
    if not 1 <= position <= session.head:
        raise Invalid(f"The session has no rewind at position {position}.")
    here = History(session, whole_number(request.GET, "as_of"))
    found = next((take for take in takes(here) if take.rewind.position == position), None)
    if found is None:
        raise Invalid(f"The rewind at position {position} was undone: its steps are live again.")
    if not request.htmx:
        return redirect(Place(here, 0).of_take(found))
    then = Place(History(session, found.as_of), found.after_step)
    rows = then.history.rows(found.after_step + 1, min(found.last_step, found.after_step + AROUND))
    return render(request, "_take_rows.html", {"place": then, "rows": rows, "take": found})


@signed_in
@require_safe
def news(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """What has changed on a session's page since ``revision``; without content when nothing has.

    The page has the playhead at ``step`` and knows ``steps`` steps, of which the newest may have changed; its
    reader has seen ``seen`` of them. Without htmx: the page with the playhead at the newest step.
    """
    session = find_session(request, session_id)
    if request.htmx and request.GET.get("revision") == str(session.revision):
        return HttpResponse(status=204)
    history = History(session)
    at, known, seen = (whole_number(request.GET, name) or 0 for name in ("step", "steps", "seen"))
    filter = filter_of(request.GET)
    place = Place(history, min(max(0, at), history.steps), filter)
    if not request.htmx:
        return redirect(Place(history, history.steps, filter).here)
    context = {
        "place": place,
        "session": session,
        "rewind": standing_rewind(request, place),
        "compressing": _under_way(place),
    }
    if place.steps:
        found = takes(history)
        fresh = window(place, max(1, known), known + AROUND, found)
        context |= {
            "new": max(0, place.steps - seen),
            "fresh": replace(fresh, leads_back=False),
            "strip": draw_strip(place, found),
        }
    return render(request, "_session_news.html", context)


@signed_in
@require_POST
def rename(request: PersonRequest, session_id: UUID) -> HttpResponse:
    session = find_session(request, session_id)
    title = " ".join(clean(request.POST.get("title", "")).split())
    if len(title) > TITLE:
        raise Invalid(f"A title has at most {TITLE} characters; this one has {len(title):,}.")
    change_session(session.project, session.pk, {"title": title}, actor=actor(request))
    return redirect(place_of(request, session_id).here)


@signed_in
@require_POST
def change_status(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Archives a session, or takes it out of the archive."""
    session = find_session(request, session_id)
    status = request.POST.get("status", "")
    if status not in Session.Status:
        raise Invalid(f"status must be one of {', '.join(Session.Status)}.")
    change_session(session.project, session.pk, {"status": status}, actor=actor(request))
    return redirect(place_of(request, session_id).here)
