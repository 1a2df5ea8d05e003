"""Searches sessions in which several steps match: ``file:parser.py has:edit AND command:pytest has:failure``.

The part of the query that matches the fewest steps finds the sessions. In each session a step of every part
is looked up: those that are closest together, in the order of the parts if there are any. So the failed test
is the one that follows an edit most closely. A page reads a bounded number of sessions, and of each session a
bounded number of matching steps.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple
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
_LISTED = 5
"""The maximum number of other matching steps that a hit lists."""
_CLOSEST, _ENDLESS = (0, 1, False), (LAST, 0, False)
"""How many steps are after the next one, how many steps are between them, and whether it is only one step."""


class _PartRows(NamedTuple):
    """The live rows of a session that match a part of the query."""

    rows: list[MatchingRow]
    """In the order of their positions: at least one."""
    newest: int
    """The largest id of a row."""
    has_more: bool
    """Whether there may be further rows."""


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
            found = self._rows_of_parts(session)
            if not found:
                continue
            if before is not None and found[self._parts.index(driver)].newest >= before:
                return []
            steps = _closest([part.rows for part in found])
            matches: dict[MatchingRow, list[PartMatch]] = {}
            for number, (part, row) in enumerate(zip(found, steps, strict=True)):
                matches.setdefault(row, []).append(_match(number, part, row, steps[number + 1 :]))
            lineage = driver.lineage(session)
            return [
                SearchHit(row, session, lineage.contains(str(row.owner), row.anchor), lineage, tuple(parts))
                for row, parts in matches.items()
            ]
        return []

    def _rows_of_parts(self, session: Session) -> list[_PartRows]:
        """The newest live rows that match each part. Of a part whose newest rows are all after those of the
        next part, also older ones. Empty if no row matches a part."""
        found = list[_PartRows]()  # the last part first
        for part in reversed(self._parts):
            rows, has_more = self._live_rows(part, session, LAST)
            if not rows:
                return []
            newest = rows[0].id
            following = found[-1].rows[-1] if found else None
            if has_more and following is not None and all(_is_after(row, following) for row in rows):
                rows += self._live_rows(part, session, following.id)[0]
            unique = {row.id: row for row in rows}.values()
            found.append(_PartRows(sorted(unique, key=lambda row: row.first), newest, has_more))
        return found[::-1]

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


def _closest(parts: Sequence[Sequence[MatchingRow]]) -> list[MatchingRow]:
    """A row of each part: the ones with the fewest steps between them. If there are any, rows in the order of
    the parts.

    Two steps that follow each other count as close as one step that matches both parts, and are preferred: a
    failed edit is not the failure after the edit. Of equally close rows, the newest.

    Args:
        parts: the rows of each part, in the order of their positions.
    """
    *earlier, newest = [(rows, [row.first for row in rows]) for rows in parts]
    best, least = list[MatchingRow](), _ENDLESS
    preceding = {row.id: before for before, row in pairwise(parts[0])}
    for row in reversed(newest[0]):
        chosen, late, steps = [row], 0, 0
        for rows, positions in reversed(earlier):
            following = chosen[-1]
            chosen.append(rows[max(0, bisect_right(positions, following.first) - 1)])
            late += _is_after(chosen[-1], following)
            steps += abs(following.step - chosen[-1].step)
        before = preceding.get(chosen[-1].id)
        if not steps and before and before.step == row.step - 1:
            chosen[-1], steps = before, 1
        distance = late, max(1, steps), not steps
        if distance < least:
            best, least = chosen[::-1], distance
        if distance == _CLOSEST:
            break
    return best


def _match(number: int, part: _PartRows, row: MatchingRow, later: Sequence[MatchingRow]) -> PartMatch:
    """What a part has to do with its step.

    Args:
        later: the steps of the next parts.
    """
    steps = None if part.has_more else len(part.rows)
    follows = later[0] if later and _is_after(row, later[0]) else None
    return PartMatch(number, steps, follows, _nearest(part.rows, row))


def _nearest(rows: Sequence[MatchingRow], shown: MatchingRow) -> tuple[MatchingRow, ...]:
    """The other steps that are closest to the shown one, in the order of their positions."""
    others = [row for row in rows if row.step != shown.step]
    others.sort(key=lambda row: abs(row.step - shown.step))
    return tuple(sorted(others[:_LISTED], key=lambda row: row.first))


def _is_after(row: MatchingRow, other: MatchingRow) -> bool:
    return row.first > other.first if row.owner == other.owner else row.step > other.step


def _counted(page: SearchPage, before: int | None) -> SearchPage:
    if before is None:
        page.count(page.hits)
        page.is_counted_to_end = page.next is None
    return page
