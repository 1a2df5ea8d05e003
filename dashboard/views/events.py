"""The streams of events by which pages grow; see ``static/js/events.js``."""

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest, current_project, find_session, projects, signed_in
from historyapp.event_streams import EventStream, Reader


@signed_in
@require_safe
def events(request: PersonRequest) -> HttpResponse:
    """The events of the current project after ``Last-Event-ID`` or ``after``, otherwise from now on."""
    return _stream(request, current_project(request, projects(request)).pk)


@signed_in
@require_safe
def session_events(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The events of one session. The stream ends when the session is deleted."""
    session = find_session(request, session_id)
    return _stream(request, session.project_id, session.pk)


def _stream(request: PersonRequest, project: UUID, session: UUID | None = None) -> EventStream:
    after = request.headers.get("Last-Event-ID") or request.GET.get("after")
    browser, password = request.session.session_key or "", request.user.get_session_auth_hash()
    return EventStream(Reader(project, None, request.user.pk, browser, password), session, after)
