"""Saving the options of the context panel, applying them to the session, and deleting them."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access import PersonRequest, actor, signed_in
from dashboard.location import find_location
from dashboard.views.context import read_context_form
from historyapp.services.what_ifs import delete_what_if, find_what_if, save_what_if, use_what_if


@signed_in
@require_POST
def save(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Saves the options in the address as ``name``, and redirects to the panel."""
    location = find_location(request, session_id)
    form = read_context_form(location, request.GET)
    project = location.session.project
    save_what_if(project, request.POST.get("name", ""), form.options, actor=actor(request))
    return redirect(form.address)


@signed_in
@require_POST
def change(request: PersonRequest, session_id: UUID, what_if_id: UUID) -> HttpResponse:
    """Makes a saved What if the session's settings, or with ``delete`` deletes it."""
    location = find_location(request, session_id)
    session = location.session
    if "delete" in request.POST:
        delete_what_if(session.project, what_if_id)
        return redirect(read_context_form(location, request.GET).address)
    use_what_if(session, find_what_if(session.project, what_if_id), actor=actor(request))
    return redirect(f"{location.url}?{location.query}&mode=what_if")
