"""Rewinding a session, seeing first what that cuts off, undoing it, and hearing no more of it."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.place import Place, page_context, place_of, whole_number
from historyapp.core.errors import Invalid
from historyapp.models import Entry, Session
from historyapp.models.history import History
from historyapp.models.takes import newest_rewind
from historyapp.services.rewinds import Target, before_rewind, preview_rewind, undo_rewind
from historyapp.services.rewinds import rewind as rewind_session

REASON = 1000
"""Characters of a reason that are kept."""
DISMISSED = "dismissed_rewinds"
"""Where a person's browser session keeps which rewinds they want to hear no more of."""
KEPT = 50


@dataclass(frozen=True, slots=True)
class Cut:
    """What going back after step ``after`` cuts off."""

    after: int
    steps: int
    entries: int

    @property
    def first(self) -> int:
        return self.after + 1

    @property
    def last(self) -> int:
        return self.after + self.steps


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def rewind(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form, with what the chosen step would cut off; POST rewinds."""
    session = find_session(request, session_id)
    step = whole_number(request.POST if request.method == "POST" else request.GET, "step")
    if request.method == "POST":
        if step is None:
            raise Invalid("Choose the step to continue after.")
        rewound = rewind_session(
            session.project,
            session.pk,
            Target(to_step=step),
            reason=request.POST.get("reason", "").strip()[:REASON],
            actor=actor(request),
            expected_position=whole_number(request.POST, "expected_position"),
        )
        return redirect(newest(History(rewound.session)).here)
    history = History(session)
    target = Target(to_step=max(0, history.steps - 1) if step is None else step)
    _, cut_off, steps = preview_rewind(history, target)
    cut = Cut(history.steps - steps, steps, len(cut_off))
    context = page_context(request, Place(history, cut.after)) | {"cut": cut}
    return render(request, "_rewind.html" if request.htmx else "rewind.html", context)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """Asks with what it would change; POST restores what was live before the rewind at a position."""
    session = find_session(request, session_id)
    if request.method == "POST":
        rewound = undo_rewind(session.project, session.pk, position, actor=actor(request))
        return redirect(newest(History(rewound.session)).here)
    now, then = session.lineage(), before_rewind(session, position)
    context = {
        "position": position,
        "restored": len(then.without(now)),
        "cut_off": len(now.without(then)),
        "then": History(session, position - 1),
    }
    return render(request, "undo.html", page_context(request, newest(History(session))) | context)


@signed_in
@require_POST
def dismiss(request: PersonRequest, session_id: UUID, position: int) -> HttpResponse:
    """Puts the bar about the rewind at a position out of sight, for as long as the person is signed in."""
    session = find_session(request, session_id)
    earlier = request.session.get(DISMISSED, [])
    request.session[DISMISSED] = [*earlier, _name(session, position)][-KEPT:]
    return HttpResponse() if request.htmx else redirect(place_of(request, session_id).here)


@dataclass(frozen=True, slots=True)
class StandingRewind:
    """The rewind that is the newest entry, which one click undoes."""

    entry: Entry
    steps_before: int
    steps: int

    @property
    def cut(self) -> int:
        return self.steps_before - self.steps


def standing_rewind(request: PersonRequest, place: Place) -> StandingRewind | None:
    """The one that a page tells of; None in the past, and once the person has dismissed it."""
    entry = newest_rewind(place.session) if place.as_of is None else None
    if entry is None or _name(place.session, entry.position) in request.session.get(DISMISSED, []):
        return None
    before = History(place.session, entry.position - 1)
    return StandingRewind(entry, before.steps, place.steps)


def _name(session: Session, position: int) -> str:
    return f"{session.pk}:{position}"


def newest(history: History) -> Place:
    """The newest step of a history."""
    return Place(history, history.steps)
