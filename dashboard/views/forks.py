"""Forking a session at a step."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access import PersonRequest, actor, signed_in
from dashboard.location import Location, find_location, read_number
from historyapp.models.history import History
from historyapp.services.rewinds import fork as fork_session


@signed_in
@require_POST
def fork(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """A new session that shares the history up to the end of ``step``; ``as_of`` also reaches into takes."""
    location = find_location(request, session_id, read_number(request.POST, "step"))
    child = fork_session(
        location.session.project,
        location.session.pk,
        at_position=location.history.end_of(location.step),
        actor=actor(request),
    )
    return redirect(Location(History(child), child.steps).address)
