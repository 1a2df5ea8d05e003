"""The tabs of a session's page."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.place import page_context, place_of
from dashboard.tabs import TABS


@signed_in
@require_safe
def tab(request: PersonRequest, session_id: UUID, name: str) -> HttpResponse:
    """A tab's content for a step. Without htmx: on a page of its own."""
    place, found = place_of(request, session_id), TABS[name]
    shown = {"place": place, **found.content(place)}
    if request.htmx:
        return render(request, found.template, shown)
    return render(request, "part.html", page_context(request, place) | shown | {"part": found.template})
