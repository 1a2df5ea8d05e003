"""Bookmarking the step under the playhead, and writing a note on it."""

from contextlib import suppress
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dashboard.access import PersonRequest, actor, signed_in
from dashboard.location import find_location
from historyapp.core.errors import NotFound
from historyapp.services.notes import delete_note, put_note


@signed_in
@require_POST
def note(request: PersonRequest, session_id: UUID, number: int) -> HttpResponse:
    """Saves ``text`` as the step's note, or removes it (``delete``). Without htmx: redirects to the step."""
    location = find_location(request, session_id, number)
    session, step, as_of = location.session, location.step, location.as_of
    if "delete" in request.POST:
        with suppress(NotFound):  # somebody else has deleted it
            delete_note(session.project, session.pk, step, as_of=as_of)
    else:
        text = request.POST.get("text", "").replace("\r\n", "\n").strip()
        put_note(session.project, session.pk, step, text, as_of=as_of, actor=actor(request))
    if not request.htmx:
        return redirect(location.address)
    session.refresh_from_db(fields=["revision"])
    return render(request, "step/_note_update.html", {"location": location})
