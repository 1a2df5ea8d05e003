"""One page of a search across sessions, for the API and the dashboard, and the sessions that it finds."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from historyapp.core.search_query import SearchQuery, parse_query
from historyapp.core.search_snippets import Snippet, snippet_of
from historyapp.core.search_widening import widen_query
from historyapp.models.search import SECONDS, ProjectSearch, SearchHit, SearchPage
from historyapp.models.search_limits import limit_statements
from historyapp.models.search_passages import passages_of
from historyapp.models.search_sessions import WholeSessionSearch
from historyapp.services.search.index import catch_up_for_search

MAX_STEPS = 1_000
"""Matching steps that are read to list their sessions."""


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
    offered: str = ""
    """Another way to read a sentence of which single steps have all words: the query that several steps of a
    session may match together. Otherwise empty."""


class MatchingSessions(NamedTuple):
    """The sessions in which steps match a query."""

    ids: "Collection[UUID] | QuerySet[Any, Any]"
    steps: int | None
    """The matching steps that were read; None if the query has only filters of sessions."""
    is_complete: bool
    """False if further sessions may match: only the newest matching steps are read."""


def search(project: UUID, text: str, now: datetime, limit: int, before: int | None = None) -> Results:
    """Finds steps of the project that match a query, the most recently recorded first. If no step matches,
    finds sessions in which several steps match together.

    Args:
        before: ``page.next`` of the previous page.

    Raises:
        Invalid: when the query cannot be read.
        SearchTooSlow: when it takes too long.
    """
    query = parse_query(text, now)
    is_up_to_date = catch_up_for_search(project)
    page, wider, offered = _search_page(project, query, limit, before), "", ""
    if before is None:
        page, wider = _widened(project, text, now, page, limit)
        query = parse_query(wider, now) if wider else query
        offered = widen_query(text, only_sentences=True) if page.hits and not wider else ""
    texts = passages_of(page.hits)
    hits = [(hit, snippet_of(texts[hit.row.id], query.texts)) for hit in page.hits]
    return Results(query, page, hits, is_up_to_date, wider, offered)


def sessions_with_steps(project: UUID, text: str, now: datetime) -> MatchingSessions:
    """The sessions in which one of the newest :data:`MAX_STEPS` matching steps is.

    If no step matches, the sessions in which several steps match together.

    Raises:
        Invalid: when the query cannot be read.
        SearchTooSlow: when it takes too long.
    """
    query = parse_query(text, now)
    if query.conditions and not query.terms and query.since is None and query.until is None:
        with limit_statements(SECONDS):
            sessions = ProjectSearch(project, query).wanted_sessions()
        return MatchingSessions([] if sessions is None else sessions, None, is_complete=True)
    is_up_to_date = catch_up_for_search(project)
    page = _search_page(project, query, MAX_STEPS, None)
    page, _ = _widened(project, text, now, page, MAX_STEPS)
    ids = {hit.session.pk for hit in page.hits}
    return MatchingSessions(ids, len(page.hits), is_complete=is_up_to_date and page.next is None)


def _widened(project: UUID, text: str, now: datetime, page: SearchPage, limit: int) -> tuple[SearchPage, str]:
    """The first page and an empty text if it has hits, otherwise that of the wider query, and this query."""
    if page.hits or page.next is not None or not (wider := widen_query(text)):
        return page, ""
    page = _search_page(project, parse_query(wider, now), limit, None)
    return page, wider if page.hits else ""


def _search_page(project: UUID, query: SearchQuery, limit: int, before: int | None) -> SearchPage:
    if len(query.groups) > 1:
        return WholeSessionSearch(project, query).page(limit, before)
    return ProjectSearch(project, query).page(limit, before)
