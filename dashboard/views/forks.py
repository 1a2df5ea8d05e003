"""Forking a session at a step."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access import PersonRequest, actor, signed_in
from dashboard.place import Place, place_of, whole_number
from historyapp.models.history import History
from historyapp.services.rewinds import fork as fork_session


@signed_in
@require_POST
def fork(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """A new session that shares the history up to the end of ``step``; ``as_of`` also reaches into takes."""
    place = place_of(request, session_id, whole_number(request.POST, "step"))
    child = fork_session(
        place.session.project,
        place.session.pk,
        at_position=place.history.end_of(place.step),
        actor=actor(request),
    )
    return redirect(Place(History(child), child.steps).here)
