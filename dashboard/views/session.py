"""The session page: timeline, playhead, the steps around it and the step under it."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import PersonRequest, actor, find_session, share_of, signed_in
from dashboard.find import find_in
from dashboard.keys import keys_of
from dashboard.location import (
    Location,
    find_history,
    find_location,
    newest_step,
    read_number,
)
from dashboard.rendering.step import load_inputs, load_step
from dashboard.session_head import facts_context, head_context
from dashboard.step_list.chips import active_chips, quick_chips
from dashboard.step_list.filter import read_filter
from dashboard.step_list.rows import (
    AROUND,
    at_first_match,
    before_turn,
    beyond_turn,
    mark_notes,
    matches_after,
    matches_around,
    matches_before,
    step_rows,
)
from dashboard.step_list.turns import turn_around
from dashboard.tabs import TABS
from dashboard.timeline.form import read_timeline_form
from dashboard.timeline.timeline import draw_timeline
from dashboard.views.context import form_context, read_context_form
from dashboard.views.rewinds import latest_rewind
from historyapp.core.call_subjects import KINDS
from historyapp.core.dates import known_time
from historyapp.core.errors import Invalid
from historyapp.core.session_metadata import MAX_TITLE
from historyapp.core.text import clean
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.step_filters import STATUS_FILTERS
from historyapp.models.takes import takes, takes_up_to
from historyapp.services.sessions import change_session


@signed_in
@require_safe
def session(request: PersonRequest, session_id: UUID) -> HttpResponse:
    location = find_location(request, session_id)
    if location.filter.query and read_number(request.GET, "step") is None:
        location = at_first_match(location)
    history, step = location.history, location.step
    cut_off = takes(history)
    found_text = find_in(location, _searched_to(request))
    hits, searched = (found_text.numbers, found_text.searched) if found_text else ([], None)
    drawn = draw_timeline(location, cut_off, hits, searched)
    context: dict[str, Any] = {
        **head_context(request, location),
        "timeline": drawn,
        "statuses": STATUS_FILTERS,
        "kinds": KINDS,
        "quick_chips": quick_chips(location),
        "active_chips": active_chips(location),
        "inputs": [] if step else load_inputs(history),
        "rewind": latest_rewind(request, location),
        "ends_at": known_time(location.history.last_entry_at),
        "tabs": TABS.values(),
        "keys": keys_of(location.history.visible),
        "found_text": found_text,
    }
    if not location.is_shared:
        context |= form_context(location, read_context_form(location, request.GET))
    # The list is read first: it holds the row of the step.
    may_be_summarised = True
    if location.filter.query:
        context["matches"] = matches_around(location, step)
    else:
        rows = step_rows(location, step - AROUND, step + AROUND, cut_off)
        context["rows"] = rows
        may_be_summarised = any(item.row.number == step and item.summary for item in rows.rows)
    if step:
        context["step"] = load_step(history, step, may_be_summarised=may_be_summarised)
    return render(request, "session/page.html", context)


def _searched_to(request: PersonRequest) -> int:
    """The position after which a search continues."""
    return max(0, read_number(request.GET, "find_after") or 0)


@signed_in
@require_safe
def timeline(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The timeline with other choices, and its legend."""
    location = find_location(request, session_id)
    if not request.htmx:
        return redirect(location.address)
    drawn = draw_timeline(location, takes(location.history))
    return render(request, "timeline/_update.html", {"location": location, "timeline": drawn})


@signed_in
@require_safe
def find(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The steps that contain the search text."""
    location = find_location(request, session_id)
    if not request.htmx:
        return redirect(location.address)
    hits = find_in(location, _searched_to(request))
    return render(request, "session/_found.html", {"found_text": hits, "location": location})


@signed_in
@require_safe
def steps(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Rows of the step list: those after or before a step, or those around one.

    ``folded``: the turn whose steps are not needed, except for its first one.
    """
    location = find_location(request, session_id)
    names = ("after", "before", "around", "folded")
    after, before, around, folded = (read_number(request.GET, name) for name in names)
    if not request.htmx:
        return redirect(location.address_of(max(1, after or before or around or 1)))
    if location.filter.query:
        if after is not None:
            matches = matches_after(location, after)
        elif before is not None:
            matches = matches_before(location, before)
        else:
            matches = matches_around(location, around or 1)
        return render(request, "step_list/_filtered_rows.html", {"matches": matches})
    if after is not None:
        if folded:
            after = beyond_turn(location, folded, after)
        first, last = after + 1, after + AROUND
    elif before is not None:
        if folded:
            before = before_turn(location, folded, before)
        first, last = before - AROUND, before - 1
    else:
        first, last = (around or 1) - AROUND, (around or 1) + AROUND
    location.history.rows(first - 1, last + 1)  # the list, and the rows around it that it needs
    rows = step_rows(location, first, last, takes_up_to(location.history, last))
    rows = replace(rows, has_link_back=after is None, has_link_forward=before is None)
    return render(request, "step_list/_episode_rows.html", {"rows": rows, "location": location})


@signed_in
@require_safe
def subagent_steps(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Steps of a sub-agent's session, for the list of the session that started it."""
    location, after = find_location(request, session_id), max(0, read_number(request.GET, "after") or 0)
    if not request.htmx:
        return redirect(location.address_of(after + 1))
    rows = step_rows(location, after + 1, after + AROUND, [])
    return render(request, "step_list/_subagent_steps.html", {"rows": rows, "location": location})


@signed_in
@require_safe
def take(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """The first steps of the take that the rewind at a position cut off."""
    history = find_history(request, session_id)
    session = history.session
    last = session.head if history.as_of is None else history.as_of
    if not 1 <= position <= last:
        raise Invalid(f"The session has no rewind at position {position}.")
    chosen = next((take for take in takes(history) if take.rewind.position == position), None)
    if chosen is None:
        raise Invalid(f"The rewind at position {position} was undone: its steps are live again.")
    if not request.htmx:
        return redirect(Location(history, 0).address_of_take(chosen))
    then = Location(History(session, chosen.as_of, history.visible), chosen.after_step)
    rows = then.history.rows(chosen.after_step + 1, min(chosen.last_step, chosen.after_step + AROUND))
    mark_notes(then, rows)
    return render(request, "step_list/_take_steps.html", {"location": then, "rows": rows, "take": chosen})


@signed_in
@require_safe
def news(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The changes of a session's page since ``revision``; 204 if there are none, as always through a share
    link that ends at a position.

    The page has the playhead at ``step`` and shows ``steps`` steps. The newest of them may have changed. The
    reader has seen ``seen`` of them. Without htmx: the page with the playhead at the newest step.
    """
    session, share = find_session(request, session_id), share_of(request)
    if request.htmx:
        has_ended = share is not None and share.as_of is not None
        if has_ended or request.GET.get("revision") == str(session.revision):
            return HttpResponse(status=204)
    form, view = read_filter(request.GET), read_timeline_form(request.GET)
    location = replace(newest_step(session, share), filter=form, timeline=view)
    if not request.htmx:
        return redirect(location.address)
    step, shown_steps, seen = (read_number(request.GET, name) or 0 for name in ("step", "steps", "seen"))
    location = replace(location, step=min(max(0, step), location.steps))
    context = {
        "location": location,
        "session": session,
        "rewind": latest_rewind(request, location),
        **facts_context(location),
    }
    if location.steps:
        cut_off = takes(location.history)
        fresh = step_rows(location, max(1, shown_steps), shown_steps + AROUND, cut_off)
        context |= {
            "new": max(0, location.steps - seen),
            "fresh": replace(fresh, has_link_back=False),
            "grown": turn_around(location.history, max(1, min(shown_steps, location.steps))),
            "timeline": draw_timeline(location, cut_off),
            "quick_chips": quick_chips(location),
            "active_chips": active_chips(location),
        }
    return render(request, "session/_update.html", context)


@signed_in
@require_safe
def tab(request: PersonRequest, session_id: UUID, name: str) -> HttpResponse:
    """A tab's content for a step. Without htmx: on a page of its own."""
    location, chosen = find_location(request, session_id), TABS[name]
    if request.htmx:
        return render(request, chosen.template, {"location": location, **chosen.content(location)})
    context = head_context(request, location) | {"tab": chosen, **chosen.content(location)}
    return render(request, "session/tab_page.html", context)


@signed_in
@require_POST
def rename(request: PersonRequest, session_id: UUID) -> HttpResponse:
    session = find_session(request, session_id)
    title = " ".join(clean(request.POST.get("title", "")).split())
    if len(title) > MAX_TITLE:
        raise Invalid(f"A title has at most {MAX_TITLE} characters; this one has {len(title):,}.")
    change_session(session.project, session.pk, {"title": title}, actor=actor(request))
    return redirect(find_location(request, session_id).address)


@signed_in
@require_POST
def change_status(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Archives or unarchives a session."""
    session = find_session(request, session_id)
    status = request.POST.get("status", "")
    if status not in Session.Status:
        raise Invalid(f"status must be one of {', '.join(Session.Status)}.")
    change_session(session.project, session.pk, {"status": status}, actor=actor(request))
    return redirect(find_location(request, session_id).address)
