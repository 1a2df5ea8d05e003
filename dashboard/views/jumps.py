"""Jumps to the next or previous step of a kind."""

from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.jumps import find_jump
from dashboard.location import find_location
from historyapp.core.errors import NotFound


@signed_in
@require_safe
def jump(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Redirects from a step to the one that ``to`` names; for scripts: that step as JSON.

    Raises:
        NotFound: without scripts, when there is no such step.
    """
    location = find_location(request, session_id)
    found = find_jump(location, request.GET.get("to", ""))
    if request.htmx:
        return JsonResponse({"step": found.step, "searched_to": found.searched_to, "reason": found.reason})
    target = found.step or found.searched_to
    if target is None:
        raise NotFound(found.reason)
    return redirect(location.address_of(target))
