"""Searches the steps of all sessions."""

from collections.abc import Sequence
from typing import Annotated, Any
from zlib import crc32

from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.auth import ApiRequest
from historyapp.api.cursors import Cursor, decode_cursor, encode_cursor
from historyapp.api.fields import Line, iso
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Invalid
from historyapp.core.search_hints import hints_of
from historyapp.core.search_query import MAX_CHARACTERS
from historyapp.core.search_snippets import Snippet
from historyapp.core.search_widening import widen_query
from historyapp.enqueue import request_search_index
from historyapp.models.search import SearchHit
from historyapp.services.search.results import search
from historyapp.services.search.suggestions import suggestions
from historyapp.wire.problems import NotValid, SearchTooSlow
from historyapp.wire.search import SearchPageOut, SuggestionOut, SuggestionsOut

router = Router(tags=["find"])

_LIST = "search"
_MAX_VALUES = 20


class StepSearchParameters(BaseModel):
    q: Annotated[Line, Field(max_length=MAX_CHARACTERS)] = Field(
        description='Words, "phrases", prefixes (`Ensur*`) and filters (`tool:bash status:error`). A step '
        "must match all of them. `-` before one excludes the steps that match it."
    )
    limit: Annotated[int, Field(ge=1, le=50)] = 20
    cursor: Cursor | None = None


@router.get("/search", response=SearchPageOut, summary="Search the steps of all sessions")
@raises(Invalid, SearchTooSlow)
def search_steps(request: ApiRequest, filter: Query[StepSearchParameters]) -> HttpResponse:
    """The steps of the project that match, the most recently recorded first. Steps in takes and in archived
    sessions are left out; `takes:all` finds takes too, and `session:ID` an archived session's steps.

    If no step matches everything, `wider` is the query that was used instead.
    """
    project, query, before = request.auth.project_id, filter.q, None
    if filter.cursor is not None:
        before, cursor_hash = decode_cursor(_LIST, filter.cursor, int, int)
        if cursor_hash != _hash(query):
            query = widen_query(query)  # the page before this one used it instead
        if cursor_hash != _hash(query):
            raise NotValid("This cursor belongs to another query. Send the same `q` with each page.")
    results = search(project, query, timezone.now(), filter.limit, before)
    if not results.is_up_to_date:
        request_search_index(project)
    page, hints = results.page, hints_of(filter.q)
    wider = results.wider or (query if query != filter.q else "")
    if results.offered:
        hints.append(f"Different steps of one session can match too. Search for: {results.offered}")
    return json_response(
        {
            "items": [_search_item(hit, snippet, results.query.parts) for hit, snippet in results.hits],
            "next": None if page.next is None else encode_cursor(_LIST, page.next, _hash(wider or query)),
            "facets": {
                name: [{"value": value, "count": count} for value, count in counts.most_common(_MAX_VALUES)]
                for name, counts in page.facets.items()
            },
            "counted": page.counted,
            "counted_all": page.is_counted_to_end,
            "up_to_date": results.is_up_to_date,
            "hints": hints,
            "wider": wider,
        }
    )


class SuggestionParameters(BaseModel):
    q: Annotated[Line, Field(max_length=MAX_CHARACTERS)] = Field(description="The query up to the cursor.")


@router.get("/search/suggestions", response=SuggestionsOut, summary="Complete a search")
def suggest_searches(request: ApiRequest, filter: Query[SuggestionParameters]) -> HttpResponse:
    """At most ten filters, values of this project, or words of its newest steps. Each may replace `q`
    from the character `start` on.
    """
    start, texts = suggestions(request.auth.project_id, filter.q)
    items = [fill(SuggestionOut, suggestion) for suggestion in texts]
    return json_response(SuggestionsOut(start=start, items=items))


def _hash(query: str) -> int:
    return crc32(query.strip().encode("utf-8", "surrogatepass")) & 0x7FFFFFFF


def _search_item(hit: SearchHit, snippet: Snippet | None, parts: Sequence[str]) -> dict[str, Any]:
    row = hit.row
    return {
        "session": str(hit.session.pk),
        "title": hit.session.title,
        "agent": hit.session.agent,
        "episode": min(row.step, hit.session.steps) if hit.live else row.step,
        "position": snippet.position if snippet else row.anchor,
        "field": snippet.field if snippet else "",
        "snippet": snippet.text if snippet else "",
        "marks": snippet.marks if snippet else (),
        "status": row.status,
        "tools": row.tools,
        "at": iso(row.at),
        "live": hit.live,
        "recorded_in": str(row.owner),
        "conditions": [parts[match.part] for match in hit.matches],
    }
