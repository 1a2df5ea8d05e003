"""Searches sessions in which several steps match: ``file:parser.py has:edit AND command:pytest has:failure``.

The part of the query that matches the fewest steps finds the sessions. In each session the newest step of
every other part is looked up. A page reads a bounded number of sessions.
"""

from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from historyapp.core.search_query import SearchQuery
from historyapp.models.search import (
    CANDIDATES,
    LAST,
    SECONDS,
    MatchingRow,
    ProjectSearch,
    SearchHit,
    SearchPage,
)
from historyapp.models.search_limits import limit_statements
from historyapp.models.sessions import Session

MAX_SESSIONS = 40
"""The maximum number of sessions that one page searches."""
MAX_READ = 5_000
"""The maximum number of rows that one page reads to find sessions."""
MAX_ROWS = 50
"""The maximum number of rows of a session to check for a live one, for each part of the query."""
_MAX_COUNTED = 2_000
"""Parts of a query that probably match more rows are not counted, if the database can estimate them."""
_FORKS = 5
"""The maximum number of forks to search if a session lacks a step."""


class WholeSessionSearch:
    """A query with several parts in one project."""

    def __init__(self, project: UUID, query: SearchQuery) -> None:
        self.query = query
        self._parts = [ProjectSearch(project, replace(query, groups=[group])) for group in query.groups]

    def page(self, limit: int, before: int | None = None) -> SearchPage:
        """The steps of one or more sessions, at most ``limit`` steps if there are several.

        Raises:
            SearchTooSlow: if it takes longer than :data:`historyapp.models.search.SECONDS`.
        """
        page, reached, read = SearchPage(), before or LAST, 0
        with limit_statements(SECONDS):
            sessions = self._parts[0].wanted_sessions()
            if sessions is not None and not sessions:
                return page
            driver, newest = self._driver(sessions)
            seen: set[UUID] = set()
            while True:
                rows = newest if reached == LAST else driver.candidates(sessions, reached)
                read += len(rows)
                for hit in driver.hits(rows):
                    if hit.session.pk in seen:
                        continue
                    if len(seen) == MAX_SESSIONS or (page.hits and len(page.hits) + len(self._parts) > limit):
                        page.next = reached
                        return _counted(page, before)
                    seen.add(hit.session.pk)
                    page.hits += self._steps_of(hit, driver, before)
                    reached = hit.row.id
                if len(rows) < CANDIDATES:
                    return _counted(page, before)
                reached = rows[-1].id
                if read >= MAX_READ:
                    page.next = reached
                    return _counted(page, before)

    def _driver(
        self, sessions: "QuerySet[Any, Any] | list[UUID] | None"
    ) -> tuple[ProjectSearch, list[MatchingRow]]:
        """The part that matches the fewest steps, and its newest rows.

        Parts that are expected to match many steps are not counted, because that takes longer.
        """
        expected = [part.expected_rows() for part in self._parts]
        limit = max(_MAX_COUNTED, min(expected))
        counted = [part for part, rows in zip(self._parts, expected, strict=True) if rows <= limit]
        newest = [part.candidates(sessions, LAST) for part in counted]
        fewest = min(newest, key=len)
        return counted[newest.index(fewest)], fewest

    def _steps_of(self, hit: SearchHit, driver: ProjectSearch, before: int | None) -> list[SearchHit]:
        """The newest step of each part, in the session of a hit or in a fork of it. Empty if a part has none.

        Also empty if an earlier page has shown the session.
        """
        forks = chain([hit.session], driver.forks(hit.session, hit.row.anchor))
        for session, _ in zip(forks, range(1 + _FORKS), strict=False):
            steps: dict[int, SearchHit] = {}
            for part in self._parts:
                newest_hit = self._newest(part, session)
                if newest_hit is None:
                    break
                if part is driver and before is not None and newest_hit.row.id >= before:
                    return []
                steps.setdefault(newest_hit.row.id, newest_hit)
            else:
                return list(steps.values())
        return []

    def _newest(self, part: ProjectSearch, session: Session) -> SearchHit | None:
        lineage = part.lineage(session)
        owners = {session.pk, *map(UUID, lineage.owners)}
        for row in part.candidates(sorted(owners), LAST, MAX_ROWS):
            is_live = lineage.contains(str(row.owner), row.anchor)
            if is_live or (self.query.with_takes and row.owner == session.pk):
                return SearchHit(row, session, is_live, lineage)
        return None


def _counted(page: SearchPage, before: int | None) -> SearchPage:
    if before is None:
        page.count(page.hits)
        page.is_counted_to_end = page.next is None
    return page
