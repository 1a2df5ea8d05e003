"""One page of a search across sessions, for the API and the dashboard."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from historyapp.core.search_query import SearchQuery, parse_query
from historyapp.core.search_snippets import Snippet, snippet_of
from historyapp.core.search_widening import widen_query
from historyapp.models.search import ProjectSearch, SearchHit, SearchPage
from historyapp.models.search_passages import passages_of
from historyapp.models.search_sessions import WholeSessionSearch
from historyapp.services.search.index import catch_up_for_search


@dataclass(frozen=True, slots=True)
class Results:
    """A page of hits with their snippets."""

    query: SearchQuery
    page: SearchPage
    hits: list[tuple[SearchHit, Snippet | None]]
    is_up_to_date: bool
    """False while steps are missing in the index."""
    wider: str = ""
    """The query that was used instead, because no single step matched; otherwise empty. Several steps of a
    session match it together."""


def search(
    project: UUID, text: str, now: datetime, limit: int, before: int | None = None, *, widen: bool = False
) -> Results:
    """Finds steps of the project that match a query, the most recently recorded first.

    Args:
        before: ``page.next`` of the previous page.
        widen: whether to find sessions in which several steps match together, if no step matches.

    Raises:
        Invalid: when the query cannot be read.
        SearchTooSlow: when it takes too long.
    """
    query = parse_query(text, now)
    is_up_to_date = catch_up_for_search(project)
    page, wider = _search_page(project, query, limit, before), ""
    if widen and before is None and not page.hits and page.next is None and (wider := widen_query(text)):
        query = parse_query(wider, now)
        page = _search_page(project, query, limit, None)
        wider = wider if page.hits else ""
    texts = passages_of(page.hits)
    hits = [(hit, snippet_of(texts[hit.row.id], query.texts)) for hit in page.hits]
    return Results(query, page, hits, is_up_to_date, wider)


def _search_page(project: UUID, query: SearchQuery, limit: int, before: int | None) -> SearchPage:
    if len(query.groups) > 1:
        return WholeSessionSearch(project, query).page(limit, before)
    return ProjectSearch(project, query).page(limit, before)
