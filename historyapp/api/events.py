"""The feed of events: pages for clients that poll, and streams of server-sent events."""

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import Limit
from historyapp.api.fields import Line, SessionId
from historyapp.api.problems import raises
from historyapp.api.responses import json_response
from historyapp.core.errors import Invalid
from historyapp.event_streams import MEDIA_TYPE, EventStream, Reader, event_fields
from historyapp.models.changes import START, Cursor, changes_since
from historyapp.wire import examples
from historyapp.wire.events import EventPage
from historyapp.wire.problems import CursorExpired

router = Router(tags=["events"])

_EXAMPLE = f"""\
event: entries
data: {{"cursor":"0-18","kind":"entries","session":"{examples.SESSION}",…}}
id: 0-18

"""
_STREAM = {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}}


class EventQuery(BaseModel):
    after: Line | None = Field(
        default=None,
        max_length=100,
        description="The cursor of an event, or `next` of a page. Without it, a page begins with the oldest "
        "change that is kept, and a stream begins now. `Last-Event-ID` takes precedence in a stream.",
    )


class EventPageQuery(EventQuery):
    limit: Limit = 50


@router.get(
    "/events",
    response=EventPage,
    summary="List or stream events",
    openapi_extra={"responses": {200: {"content": _STREAM}}},
)
@raises(CursorExpired, Invalid)
def list_events(request: ApiRequest, filter: Query[EventPageQuery]) -> HttpResponseBase:
    """What has changed in the project's sessions, in order: a page of JSON, or with `Accept:
    text/event-stream` a stream of server-sent events that continues until you close it. An event says what
    changed, without the content: read the entries from `first_position` to `position`. No event is skipped or
    repeated, even after the server or the connection has failed.
    """
    project = request.auth.project_id
    if MEDIA_TYPE in request.headers.get("Accept", ""):
        return _stream(request, filter)
    page = changes_since(project, Cursor.parse(filter.after) if filter.after else START, limit=filter.limit)
    return json_response(
        {"items": [event_fields(change) for change in page.changes], "next": str(page.cursor)}
    )


@router.get(
    "/sessions/{session_id}/stream",
    summary="Stream a session's events",
    openapi_extra={"responses": {200: {"content": _STREAM}}},
)
@raises(CursorExpired, Invalid)
def stream_session(request: ApiRequest, session_id: SessionId, filter: Query[EventQuery]) -> HttpResponse:
    """The events of one session as server-sent events. It ends when the session is deleted."""
    find_session(request, session_id)
    return _stream(request, filter, session_id)


def _stream(request: ApiRequest, filter: EventQuery, session: SessionId | None = None) -> EventStream:
    reader = Reader(request.auth.project_id, key=request.auth.pk)
    return EventStream(reader, session, request.headers.get("Last-Event-ID") or filter.after)
