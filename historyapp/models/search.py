"""Searches the steps of all sessions of a project, most recently recorded first.

The text index returns candidates in the order of their rows. A candidate is a hit if it is live in its
session or, if a rewind cut it off there, in a fork. A page reads a bounded number of candidates.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from historyapp.core.lineage import Lineage
from historyapp.core.search_documents import day_tokens, project_token, session_token
from historyapp.core.search_query import SearchQuery, Term
from historyapp.models.fields import as_uuid
from historyapp.models.search_conditions import session_condition
from historyapp.models.search_limits import limit_statements
from historyapp.models.search_text_index import (
    ROWS_BITS,
    VECTOR,
    match_value,
    match_without_order,
    rows_token,
    text_conditions,
)
from historyapp.models.sessions import Session
from historyapp.models.sql import as_aware, fetch_all
from historyapp.models.vendor import on_sqlite

CANDIDATES = 200
"""Rows of one batch. Facets are counted over the hits of the first batch."""
MAX_CANDIDATES = 1_000
"""The maximum number of rows of one page. If most are not live, the page has fewer hits and a cursor."""
SECONDS = 5.0
"""A search is cancelled after this time."""
COUNTED = ("tool", "status", "agent", "model", "tag")
"""The facets to count."""
MAX_NAMED = 40
"""The maximum number of sessions to list in a query. If more match, each candidate is checked instead."""
MAX_LISTED = 20_000
"""The maximum number of session ids to list in a query to PostgreSQL."""
MAX_FORKS = 20
"""The maximum number of forks to search for a step that is not live in its own session."""
_MAX_DAYS, _MAX_MONTHS = 62, 60
_COLUMNS = "id, session_id, first_position, last_position, anchor, step, at, status, tools"
_SQLITE = (
    f"SELECT {', '.join(f's.{name}' for name in _COLUMNS.split(', '))} FROM historyapp_searchwords AS w "  # noqa: S608
    "CROSS JOIN historyapp_searchstep AS s ON s.id = w.rowid "
    "WHERE w.historyapp_searchwords MATCH %s AND w.rowid < %s{conditions} ORDER BY w.rowid DESC LIMIT %s"
)
_INDEXED_ROWS = (
    f"WITH found AS MATERIALIZED (SELECT s.id FROM historyapp_searchstep AS s WHERE {VECTOR} "  # noqa: S608
    "@@ CAST(%s AS tsquery) AND s.id < %s AND s.project_id = %s{conditions}) "
    f"SELECT {', '.join(f's.{name}' for name in _COLUMNS.split(', '))} "
    "FROM (SELECT id FROM found ORDER BY id DESC OFFSET 0) AS f CROSS JOIN LATERAL "
    f"(SELECT {_COLUMNS} FROM historyapp_searchstep WHERE id = f.id{{texts}} OFFSET 0) AS s "
    "ORDER BY f.id DESC LIMIT %s"
)
"""The order of tokens is compared row by row, newest first, until there are enough rows: comparing takes ten
times as long as finding a row. The two OFFSETs keep PostgreSQL from changing this."""
_NEWEST_ID = "SELECT MAX(id) AS newest FROM historyapp_searchstep WHERE project_id = %s AND id < %s"
_NEWEST_ROWS = (
    f"SELECT newest, {_COLUMNS} FROM ({_NEWEST_ID}) AS one LEFT JOIN LATERAL (SELECT {_COLUMNS} FROM "  # noqa: S608
    f"(SELECT {_COLUMNS}, words FROM historyapp_searchstep AS s WHERE s.project_id = %s AND s.id < %s"
    "{conditions} ORDER BY s.id DESC LIMIT %s) AS read WHERE TRUE{texts} ORDER BY id DESC LIMIT %s"
    ") AS matching ON TRUE ORDER BY id DESC"
)
READ_FOR_PREFIX = 2_000
"""Of a prefix, so many of the newest rows are read before PostgreSQL's index is used: that reads the rows of
all words with this beginning, however few it is asked for."""
_ESTIMATE = (
    "EXPLAIN (FORMAT JSON) SELECT 1 FROM historyapp_searchstep "  # noqa: S608
    f"WHERE {VECTOR} @@ CAST(%s AS tsquery) AND project_id = %s"
)
_WINDOWS = (1, 4)
"""On PostgreSQL, matches are looked for in so many of the newest groups of 16,384 rows, then in all rows."""
LAST = 2**62


class MatchingRow(NamedTuple):
    """A matching row of the index."""

    id: int
    owner: UUID
    """The session that recorded the step."""
    first: int
    last: int
    anchor: int
    step: int
    at: datetime
    status: str
    tools: tuple[str, ...]


class PartMatch(NamedTuple):
    """The part of a query that a step matches, if different steps may match its parts."""

    part: int
    """The index of the part."""
    steps: int | None
    """The steps of the session that match this part. None: more than were counted."""
    follows: MatchingRow | None
    """The step of the next part, if this step comes after it. None: it comes before it or is the same."""
    others: tuple[MatchingRow, ...] = ()
    """Other steps of the session that match this part: the closest ones, oldest first."""


class SearchHit(NamedTuple):
    """A step in the results."""

    row: MatchingRow
    session: Session
    """The session in which it is shown: the owner, or a fork if the owner has cut it off."""
    live: bool
    lineage: Lineage
    matches: tuple[PartMatch, ...] = ()
    """The parts that it matches, if different steps may match the parts of the query."""


@dataclass(slots=True)
class SearchPage:
    """Hits, newest first."""

    hits: list[SearchHit] = field(default_factory=list)
    next: int | None = None
    """The next page has rows before this one. None: there are no more pages."""
    facets: dict[str, Counter[str]] = field(default_factory=dict)
    counted: int = 0
    """The hits to count facets over."""
    is_counted_to_end: bool = True

    def count(self, hits: Iterable[SearchHit]) -> None:
        """Adds hits to the counts of facets."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        for hit in hits:
            self.counted += 1
            counts["tool"].update(set(hit.row.tools))
            values = {"status": hit.row.status, "agent": hit.session.agent, "model": hit.session.model}
            for name, value in values.items():
                counts[name].update([value] if value else [])
            counts["tag"].update(hit.session.tags)
        self.facets = counts


class ProjectSearch:
    """One query in one project."""

    def __init__(self, project: UUID, query: SearchQuery) -> None:
        self.project = project
        self.query = query
        self._sessions: dict[UUID, Session] = {}
        self._lineages: dict[UUID, Lineage] = {}
        self._listed: list[UUID] | None = None

    def page(self, limit: int, before: int | None = None) -> SearchPage:
        """At most ``limit`` hits among the rows before ``before``.

        Raises:
            SearchTooSlow: if it takes longer than :data:`SECONDS`.
        """
        page, reached, read = SearchPage(), before or LAST, 0
        with limit_statements(SECONDS):
            sessions = self.wanted_sessions()
            if sessions is not None and not sessions:
                return page
            while True:
                rows = self.candidates(sessions, reached)
                read += len(rows)
                hits = self.hits(rows)
                if read <= CANDIDATES and before is None:
                    page.count(hits)
                    page.is_counted_to_end = len(rows) < CANDIDATES
                room = limit - len(page.hits)
                page.hits += hits[:room]
                if len(hits) > room:
                    page.next = page.hits[-1].row.id
                    return page
                if len(rows) < CANDIDATES:
                    return page
                reached = rows[-1].id
                if read >= MAX_CANDIDATES or len(page.hits) == limit:
                    page.next = reached
                    return page

    def wanted_sessions(self) -> "QuerySet[Any, Any] | list[UUID] | None":
        """The sessions that meet the query's conditions: a few ids, or a queryset. None: all."""
        sessions = Session.objects.filter(project=self.project).order_by()
        if not self.query.conditions:
            return None
        for condition in self.query.conditions:
            matching = session_condition(condition)
            sessions = sessions.exclude(matching) if condition.is_excluded else sessions.filter(matching)
        ids = list(sessions.values_list("pk", flat=True)[: MAX_NAMED + 1])
        return ids if len(ids) <= MAX_NAMED else sessions.values("pk")

    def candidates(
        self, sessions: "QuerySet[Any, Any] | list[UUID] | None", before: int, limit: int = CANDIDATES
    ) -> list[MatchingRow]:
        """The newest matching rows before ``before``, live or not."""
        scopes = [session_token(id) for id in sessions] if isinstance(sessions, list) else []
        conditions, values = self._conditions(sessions)
        parts = self.query.terms, scopes or [project_token(self.project)], self._days()
        if on_sqlite():
            rows = fetch_all(
                _SQLITE.format(conditions=conditions), [match_value(*parts), before, *values, limit]
            )
            return [_matching_row(row) for row in rows]
        if scopes:
            windows: Iterable[tuple[list[str], int]] = [([], before)]
        elif any(term.is_prefix for term in self.query.terms):
            texts, text_values = text_conditions(self.query.terms)
            statement = _NEWEST_ROWS.format(conditions=conditions, texts=texts)
            where = [self.project, before]
            rows = fetch_all(statement, [*where, *where, *values, READ_FOR_PREFIX, *text_values, limit])
            newest, is_found = rows[0][0], rows[0][1] is not None
            if is_found and len(rows) >= limit:
                return [_matching_row(row[1:]) for row in rows]
            windows = _windows(newest, before)
        else:
            windows = _windows(fetch_all(_NEWEST_ID, [self.project, before])[0][0], before)
        return self._indexed_of_postgres(parts, (conditions, values), windows, limit)

    def _indexed_of_postgres(
        self,
        parts: tuple[list[Term], list[str], list[str]],
        conditions: tuple[str, list[Any]],
        windows: Iterable[tuple[list[str], int]],
        limit: int,
    ) -> list[MatchingRow]:
        """As :meth:`candidates`, window by window: PostgreSQL reads the rows of all matches before it sorts
        them."""
        texts, text_values = text_conditions([term for term in self.query.terms if term.has_order])
        statement = _INDEXED_ROWS.format(conditions=conditions[0], texts=texts)
        found = list[Any]()
        for rows, end in windows:
            match = match_without_order(*parts, rows)
            values = [match, end, self.project, *conditions[1], *text_values, limit - len(found)]
            found += fetch_all(statement, values)
            if len(found) >= limit:
                break
        return [_matching_row(row) for row in found]

    def _conditions(self, sessions: "QuerySet[Any, Any] | list[UUID] | None") -> tuple[str, list[Any]]:
        """The conditions on times and sessions that the text index does not check, and their parameters."""
        conditions, values = "", list[Any]()
        if self.query.since is not None:
            conditions, values = " AND s.at >= %s", [_moment(self.query.since)]
        if self.query.until is not None:
            conditions, values = f"{conditions} AND s.at < %s", [*values, _moment(self.query.until)]
        if sessions is not None and not isinstance(sessions, list):
            text, session_values = self._within(sessions)
            conditions += text
            values += session_values
        return conditions, values

    def _within(self, sessions: "QuerySet[Any, Any]") -> tuple[str, list[Any]]:
        """The condition that a row belongs to one of many sessions.

        ``IS TRUE`` hides the list from PostgreSQL's planner. It expects few sessions with a match, and would
        query the text index once for each session.
        """
        if not on_sqlite():
            if self._listed is None:
                self._listed = list(sessions.values_list("pk", flat=True)[: MAX_LISTED + 1])
            if len(self._listed) <= MAX_LISTED:
                return " AND (s.session_id = ANY(%s)) IS TRUE", [self._listed]
        text, values = sessions.query.sql_with_params()
        return f" AND s.session_id IN ({text})", list(values)

    def _days(self) -> list[str]:
        """The tokens of the days or months to search. Empty: all."""
        if self.query.since is None:
            return []
        since = self.query.since.astimezone(UTC)
        days = max(0, ((self.query.until or datetime.now(UTC)) - since).days) + 2
        if days > 31 * _MAX_MONTHS:
            return []
        kind, every = (0, 1) if days <= _MAX_DAYS else (1, 14)
        return sorted(
            {day_tokens(since + timedelta(days=day))[kind] for day in range(0, days + every, every)}
        )

    def expected_rows(self) -> float:
        """PostgreSQL's estimate of the matching rows, at least 1; 0 on SQLite, which has none."""
        if on_sqlite():
            return 0.0
        match = match_without_order(self.query.terms, [project_token(self.project)], self._days())
        plan = fetch_all(_ESTIMATE, [match, self.project])[0][0]
        plan = json.loads(plan) if isinstance(plan, str) else plan
        return max(1.0, float(plan[0]["Plan"]["Plan Rows"]))

    def hits(self, rows: Sequence[MatchingRow]) -> list[SearchHit]:
        """The rows that are live in a session, or all rows if takes are included."""
        missing = {row.owner for row in rows} - self._sessions.keys()
        in_project = Session.objects.filter(project=self.project).with_lineages()
        self._sessions |= in_project.in_bulk(missing) if missing else {}
        names_session = any(condition.name == "session" for condition in self.query.conditions)
        hits = []
        for row in rows:
            session = self._sessions.get(row.owner)
            if session is None or (session.status == Session.Status.ARCHIVED and not names_session):
                continue
            hit = self._hit(row, session)
            if hit.live or self.query.with_takes:
                hits.append(hit)
        return hits

    def _hit(self, row: MatchingRow, session: Session) -> SearchHit:
        for candidate in chain([session], self.forks(session, row.anchor)):
            lineage = self.lineage(candidate)
            if lineage.contains(str(row.owner), row.anchor):
                return SearchHit(row, candidate, True, lineage)
        return SearchHit(row, session, False, self.lineage(session))

    def lineage(self, session: Session) -> Lineage:
        if session.pk not in self._lineages:
            self._lineages[session.pk] = session.lineage()
        return self._lineages[session.pk]

    def forks(self, session: Session, position: int) -> Iterator[Session]:
        """The forks, and their forks, that share a position of a session."""
        level, count = [session.pk], 0
        while level and count < MAX_FORKS:
            forks = Session.objects.filter(forked_from__in=level, fork_position__gte=position)
            forks = forks.with_lineages()
            children = list(forks.exclude(status=Session.Status.ARCHIVED).order_by("pk")[: MAX_FORKS - count])
            count += len(children)
            yield from children
            level = [fork.pk for fork in children]


def _windows(newest: int | None, before: int) -> Iterator[tuple[list[str], int]]:
    """The tokens of a project's newest rows before one, and the id at which they end, then those of more
    rows, and at last no tokens, for all others.

    The index finds matches in a tenth of the time that reading their rows takes. A query of many such tokens
    would take longer than one of all rows. The rows of other projects count towards a group, so in a project
    that grows slowly beside others, all matches are read more often.

    Args:
        newest: the id of the newest of the rows; None if there are none.
    """
    if newest is None:
        return
    last = newest >> ROWS_BITS
    for groups in _WINDOWS:
        first = max(0, last - groups + 1)
        yield [rows_token(number) for number in range(first, last + 1)], before
        if not first:
            return
        before, last = first << ROWS_BITS, first - 1
    yield [], before


def _matching_row(row: Sequence[Any]) -> MatchingRow:
    id, session, first, last, anchor, step, at, status, tools = row
    return MatchingRow(
        id,
        as_uuid(session),
        first,
        last,
        anchor,
        step,
        as_aware(at),
        status,
        tuple(filter(None, tools.split("\n"))),
    )


def _moment(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at) if on_sqlite() else at
