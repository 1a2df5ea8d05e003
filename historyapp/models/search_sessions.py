"""Searches sessions in which several steps match: ``file:parser.py has:edit AND command:pytest has:failure``.

The part of the query that matches the fewest steps finds the sessions. In each session a step of every part
is looked up: for the last part the newest, for every other part the newest that is not after the step of the
next part. So the edit is the one before the failed test, if there is one. A page reads a bounded number of
sessions.
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
    PartMatch,
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
"""The maximum number of rows of a session to check for live ones, for each part of the query."""
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
        """A step of each part, in the session of a hit or in a fork of it. Empty if a part has none.

        Also empty if an earlier page has shown the session.
        """
        forks = chain([hit.session], driver.forks(hit.session, hit.row.anchor))
        for session, _ in zip(forks, range(1 + _FORKS), strict=False):
            steps = list[SearchHit]()  # the last part first
            for number in reversed(range(len(self._parts))):
                following = steps[-1].row if steps else None
                step, newest = self._step_of(number, session, following)
                if step is None:
                    break
                if self._parts[number] is driver and before is not None and newest >= before:
                    return []
                steps.append(step)
            else:
                return list({step.row.id: step for step in reversed(steps)}.values())
        return []

    def _step_of(
        self, number: int, session: Session, following: MatchingRow | None
    ) -> tuple[SearchHit | None, int]:
        """The newest step that matches a part and is not after the step of the next part. If all are after
        it, the newest of them. Also the id of the newest row that matches the part."""
        part, lineage = self._parts[number], self._parts[number].lineage(session)
        rows, has_more = self._live_rows(part, session, LAST)
        if not rows:
            return None, 0
        earlier = [row for row in rows if following is None or not _is_after(row, following)]
        if not earlier and has_more and following is not None:
            older, _ = self._live_rows(part, session, following.id)
            earlier = [row for row in older if not _is_after(row, following)]
        row = (earlier or rows)[0]
        is_live = lineage.contains(str(row.owner), row.anchor)
        match = PartMatch(number, None if has_more else len(rows), None if earlier else following)
        return SearchHit(row, session, is_live, lineage, match), rows[0].id

    def _live_rows(
        self, part: ProjectSearch, session: Session, before: int
    ) -> tuple[list[MatchingRow], bool]:
        """The live rows among the newest ones that match a part, and whether there may be further ones."""
        lineage = part.lineage(session)
        owners = {session.pk, *map(UUID, lineage.owners)}
        rows = part.candidates(sorted(owners), before, MAX_ROWS)
        live = [
            row
            for row in rows
            if lineage.contains(str(row.owner), row.anchor)
            or (self.query.with_takes and row.owner == session.pk)
        ]
        return live, len(rows) == MAX_ROWS


def _is_after(row: MatchingRow, other: MatchingRow) -> bool:
    return row.first > other.first if row.owner == other.owner else row.step > other.step


def _counted(page: SearchPage, before: int | None) -> SearchPage:
    if before is None:
        page.count(page.hits)
        page.is_counted_to_end = page.next is None
    return page
