"""Finds a text in a session."""

from typing import Annotated, Any, Literal
from zlib import crc32

from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import Line, SessionId
from historyapp.api.responses import fill_json, response_or_304
from historyapp.enqueue import request_text_index
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.text_search import MAX_CHARACTERS, MAX_HITS, TextSearch
from historyapp.wire.find import FoundEntry, FoundPage
from historyapp.wire.problems import NotValid

router = Router(tags=["find"])

_LIST = "find"


class FindQuery(PageQuery):
    q: Annotated[Line, Field(min_length=1, max_length=MAX_CHARACTERS)] = Field(
        description="The text to find, ignoring case. It may begin and end within words; no character in it "
        "has a special meaning."
    )
    take: Literal["live", "all"] = Field(
        default="live", description="`all`: also finds steps that rewinds cut off, marked `live: false`."
    )


@router.get("/sessions/{session_id}/find", response=FoundPage, summary="Find a text in a session")
def find_text(request: ApiRequest, session_id: SessionId, query: Query[FindQuery]) -> HttpResponseBase:
    """Searches instructions, notebooks, inputs, thoughts, answers, tool calls with their arguments, results,
    reviews and debug notes.

    A page may hold fewer items than `limit`, or none, and still have a `next`: one request reads a bounded
    part of a long session, and the next one continues there.
    """
    session = find_session(request, session_id)
    return response_or_304(request, session, lambda: _find_page(session, query))


def _find_page(session: Session, query: FindQuery) -> dict[str, Any]:
    as_of, after = query.as_of, 0
    query_hash = crc32(f"{query.take}{query.q.strip()}".encode()) & 0x7FFFFFFF
    if query.cursor is not None:
        as_of, after, cursor_hash = decode_cursor(_LIST, query.cursor, int, int, int)
        if query_hash != cursor_hash:
            raise NotValid("This cursor belongs to another `q` or `take`. Send the same ones with each page.")
    history = History(session, as_of)
    hits = TextSearch(history, query.q, with_takes=query.take == "all").find(MAX_HITS, after)
    request_text_index(hits.unindexed)
    items, next_after = hits.hits[: query.limit], hits.more
    if len(hits.hits) > len(items):
        next_after = items[-1].match.position
    state = session.head if as_of is None else as_of
    found_entries = []
    for hit in items:  # inputs of a step that has not started are shown with the newest step
        step = min(hit.match.step, history.steps) if hit.live else hit.match.step
        found_entries.append(fill_json(FoundEntry, hit.match, episode=step, live=hit.live))
    return {
        "items": found_entries,
        "next": None if next_after is None else encode_cursor(_LIST, state, next_after, query_hash),
        "count": len(hits.hits),
        "complete": hits.more is None,
    }
