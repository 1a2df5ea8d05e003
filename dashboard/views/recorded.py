"""Recorded: what the model saw before a step, and the messages of that request."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, signed_in
from dashboard.location import Location, find_location, read_number, render_fragment
from dashboard.rendering.recorded import draw_recorded, message_rows
from historyapp.services.recorded import message_count, messages, recorded_request
from historyapp.services.recorded_changes import request_changes

AT_ONCE = 50
"""Messages in one page of the list."""


def show_recorded(location: Location) -> dict[str, Any]:
    """What the panel shows of the request that led to the step."""
    if not location.step:
        return {"recorded": None}
    request = recorded_request(location.history, location.step)
    return {"recorded": draw_recorded(request, request_changes(request))}


@signed_in
@require_safe
def recorded_messages(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """Some messages of the request, from number ``start`` on."""
    location = find_location(request, session_id)
    start = max(0, read_number(request.GET, "start") or 0)
    found = recorded_request(location.history, location.step) if location.step else None
    total = message_count(found) if found else 0
    rows = message_rows(messages(found, start, AT_ONCE)) if found else []
    after = start + len(rows)
    shown = {"rows": rows, "total": total, "next_start": after if rows and after < total else None}
    return render_fragment(request, "_recorded_messages.html", location, shown)
