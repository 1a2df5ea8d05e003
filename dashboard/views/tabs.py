"""The tabs of a session's page."""

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import find_location, render_fragment
from dashboard.tabs import TABS


@signed_in
@require_safe
def tab(request: PersonRequest, session_id: UUID, name: str) -> HttpResponse:
    """A tab's content for a step. Without htmx: on a page of its own."""
    location, found = find_location(request, session_id), TABS[name]
    return render_fragment(request, found.template, location, found.content(location))
