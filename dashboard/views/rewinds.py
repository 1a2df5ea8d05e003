"""Rewinding a session after a preview, undoing a rewind, dismissing its notice, and forking."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import PersonRequest, actor, find_session, share_of, signed_in
from dashboard.location import Location, find_location, newest_step, page_context, read_number
from historyapp.core.errors import Invalid
from historyapp.models import Entry
from historyapp.models.history import History
from historyapp.models.samples import count_steps
from historyapp.models.takes import newest_rewind
from historyapp.services.rewinds import MAX_REASON, Target, lineage_before_rewind, preview_rewind, undo_rewind
from historyapp.services.rewinds import fork as fork_session
from historyapp.services.rewinds import rewind as rewind_session

DISMISSED = "dismissed_rewinds"
"""Key of a person's browser session: the rewinds whose notice they dismissed, the newest :data:`KEPT`."""
KEPT = 50


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def rewind(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form, with a preview of what the rewind would cut off. POST rewinds."""
    session = find_session(request, session_id)
    step = read_number(request.POST if request.method == "POST" else request.GET, "step")
    if request.method == "POST":
        if step is None:
            raise Invalid("Choose the step to continue after.")
        rewound = rewind_session(
            session.project,
            session.pk,
            Target(to_step=step),
            reason=request.POST.get("reason", "").strip()[:MAX_REASON],
            actor=actor(request),
            expected_position=read_number(request.POST, "expected_position"),
        )
        return redirect(newest_step(rewound.session).address)
    history = History(session)
    target = Target(to_step=max(0, history.steps - 1) if step is None else step)
    _, cut_off, steps = preview_rewind(history, target)
    after = history.steps - steps
    preview = {
        "after": after,
        "first": after + 1,
        "last": history.steps,
        "steps": steps,
        "entries": len(cut_off),
    }
    context = page_context(request, Location(history, after)) | {"preview": preview}
    return render(request, "session/_rewind.html" if request.htmx else "session/rewind.html", context)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """The confirmation page. POST restores the steps that the rewind at a position cut off."""
    session = find_session(request, session_id)
    if request.method == "POST":
        rewound = undo_rewind(session.project, session.pk, position, actor=actor(request))
        return redirect(newest_step(rewound.session).address)
    now, then = session.lineage(), lineage_before_rewind(session, position)
    context = {
        "position": position,
        "restored": len(then.branch_off(now)),
        "cut_off": len(now.branch_off(then)),
        "then": History(session, position - 1),
    }
    return render(request, "session/undo.html", page_context(request, newest_step(session)) | context)


@signed_in
@require_POST
def dismiss(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """Hides the notice of a rewind for as long as the person is signed in."""
    session = find_session(request, session_id)
    dismissed = [*request.session.get(DISMISSED, []), f"{session.pk}:{position}"]
    request.session[DISMISSED] = dismissed[-KEPT:]
    return HttpResponse() if request.htmx else redirect(find_location(request, session_id).address)


@signed_in
@require_POST
def fork(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """A new session that shares the history up to the end of ``step``; ``as_of`` also reaches into takes."""
    location = find_location(request, session_id, read_number(request.POST, "step"))
    session = location.session
    position = location.history.row(location.step).last_position if location.step else 0
    child = fork_session(session.project, session.pk, at_position=position, actor=actor(request))
    return redirect(newest_step(child).address)


@dataclass(frozen=True, slots=True)
class LatestRewind:
    """A rewind that is the session's newest entry."""

    entry: Entry
    steps: int
    cut: int
    """The number of steps that it cut off; negative if it undid another rewind."""


def latest_rewind(request: PersonRequest, location: Location) -> LatestRewind | None:
    """The rewind that a page's notice shows; None in the past, and once the person has dismissed it.

    None through a share link: the notice is for those who can undo the rewind.
    """
    session = location.session
    is_shown = location.as_of is None and share_of(request) is None
    entry = newest_rewind(session) if is_shown else None
    if entry is None or f"{session.pk}:{entry.position}" in request.session.get(DISMISSED, []):
        return None
    steps_before = count_steps(session.lineage(entry.position - 1))
    return LatestRewind(entry, location.steps, steps_before - location.steps)
