"""Bookmarks and notes of steps."""

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.cursors import PageQuery, cut_page, decode_cursor
from historyapp.api.fields import AsOf, Line, QueryStep, RequestBody, SessionId
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response, response_or_304
from historyapp.core.errors import Conflict
from historyapp.models import StepNote
from historyapp.models.notes import MAX_NOTE
from historyapp.services.notes import delete_note, put_note
from historyapp.wire.base import with_example
from historyapp.wire.notes import NoteOut, NotePage

router = Router(tags=["notes"])

_LIST = "notes"


class NoteIn(RequestBody):
    model_config = with_example({"text": "The wrong file: the parser lives in lib/."})

    text: Line = Field(default="", max_length=MAX_NOTE, description="Empty: only a bookmark.")


@router.put("/sessions/{session_id}/episodes/{number}/note", response=NoteOut, summary="Bookmark a step")
@raises(Conflict)
def write_note(
    request: ApiRequest, session_id: SessionId, number: QueryStep, note: NoteIn, as_of: AsOf = None
) -> HttpResponse:
    """An earlier note on the step is replaced. Negative numbers count from the end: -1 is the newest step."""
    project = request.auth.project
    return json_response(
        fill(NoteOut, put_note(project, session_id, number, note.text, as_of=as_of, actor=actor(request)))
    )


@router.delete(
    "/sessions/{session_id}/episodes/{number}/note", response={204: None}, summary="Delete a step's note"
)
def remove_note(
    request: ApiRequest, session_id: SessionId, number: QueryStep, as_of: AsOf = None
) -> HttpResponse:
    """Removes the bookmark and the note."""
    delete_note(request.auth.project, session_id, number, as_of=as_of)
    return HttpResponse(status=204)


@router.get("/sessions/{session_id}/notes", response=NotePage, summary="List bookmarks and notes")
def list_notes(request: ApiRequest, session_id: SessionId, filter: Query[PageQuery]) -> HttpResponseBase:
    """The bookmarks and notes of live steps, in step order."""
    session = find_session(request, session_id)

    def make_content() -> NotePage:
        (after,) = decode_cursor(_LIST, filter.cursor, int) if filter.cursor is not None else (0,)
        lineage = session.lineage(filter.as_of)
        numbers = range(after + 1, lineage.last + 1)
        rows = StepNote.objects.live(session, lineage, numbers, filter.limit + 1)
        page, cursor = cut_page(_LIST, rows, filter.limit, lambda note: (note.number,))
        found = StepNote.objects.in_bulk([note.pk for note in page])
        items = [fill(NoteOut, found[note.pk]) for note in page if note.pk in found]
        return NotePage(items=items, next=cursor)

    return response_or_304(request, session, make_content)
