"""Recorded: what the model saw before a step, and the messages of that request."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import Location, find_location, read_number, render_fragment
from dashboard.rendering.recorded import draw_recorded, message_rows
from historyapp.services.recorded.changes import request_changes
from historyapp.services.recorded.requests import message_count, messages, recorded_request

NEWEST, AT_ONCE = 20, 50
"""Messages that are shown first, and those that each button for earlier ones adds."""


def show_recorded(location: Location) -> dict[str, Any]:
    """The context of the panel for the request that led to the step."""
    if not location.step:
        return {"recorded": None}
    request = recorded_request(location.history, location.step)
    return {"recorded": draw_recorded(request, request_changes(request))}


@signed_in
@require_safe
def recorded_messages(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The newest messages of the request, or those before number ``before``."""
    location = find_location(request, session_id)
    recorded = recorded_request(location.history, location.step) if location.step else None
    total = message_count(recorded) if recorded else 0
    before = read_number(request.GET, "before")
    end = total if before is None else max(0, min(before, total))
    start = max(0, end - (NEWEST if before is None else AT_ONCE))
    rows = message_rows(messages(recorded, start, end - start)) if recorded and end else []
    shown = {"rows": rows, "earlier": start}
    return render_fragment(request, "context/_recorded_messages.html", location, shown)
