"""Active sessions and recent failures of a project, by bounded reads of indexes."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from historyapp.models.compressions import CompressionRun
from historyapp.models.fields import as_uuid, uuid_value
from historyapp.models.search_limits import LIST_SECONDS, limit_statements
from historyapp.models.session_filters import SessionCriteria
from historyapp.models.sessions import Session, large_columns
from historyapp.models.sql import as_aware, fetch_all

ACTIVE_WITHIN = timedelta(minutes=15)
"""A live session without an entry for this time is not active, unless a tool call is open."""
OPEN_CALL = timedelta(days=1)
"""A tool call that is open for longer is unlikely to get a result."""
MAX_ACTIVE, MAX_FAILURES = 20, 8
_MAX_SESSIONS, _MAX_OF_SESSION = 30, 4
"""The maximum number of sessions to search for failures, and of failures of each kind to read of one session.
Several are read, because rewinds may have cut off the newest ones."""
_COLUMNS = "session_id, number, first_position, tool, likely_failure, error_line, call_preview, started_at"
_FAILED = (
    f"SELECT {_COLUMNS} FROM historyapp_episode WHERE session_id = %s AND anchor = first_position"  # noqa: S608
    f" AND {{condition}} ORDER BY number DESC LIMIT {_MAX_OF_SESSION}"
)
_KINDS = [_FAILED.format(condition=condition) for condition in ("status = 'error'", "likely_failure > ''")]


_ANCESTORS = """
WITH RECURSIVE chain (fork, parent, depth) AS (
    SELECT id, forked_from_id, 1 FROM historyapp_session WHERE project_id = %s AND id IN ({ids})
    UNION ALL
    SELECT chain.fork, session.forked_from_id, chain.depth + 1 FROM chain
    JOIN historyapp_session AS session ON session.id = chain.parent
    WHERE session.forked_from_id IS NOT NULL AND chain.depth < {depth}
) SELECT fork, parent FROM chain
"""
MAX_ANCESTORS = 100
"""The ancestors of an active fork that are looked up, the nearest first."""


class RecentFailure(NamedTuple):
    """The newest live step of a run that failed or likely failed."""

    session: Session
    number: int
    tool: str
    is_likely: bool
    line: str
    call: str
    at: datetime


@limit_statements(LIST_SECONDS)
def active_sessions(project: UUID, agent: str | None = None) -> list[Session]:
    """Live sessions with an entry of the last minutes or an open call of the last day, newest first.

    Args:
        agent: only sessions of this agent.
    """
    now = timezone.now()
    columns = ("title", "agent", "model", "status", "steps", "tail", "last_entry_at", "forked_from")
    live = Session.objects.filter(_of_agent(agent), project=project, status=Session.Status.LIVE)
    live = live.newest_first().only(*columns)
    is_recent = Q(last_entry_at__gte=now - ACTIVE_WITHIN)
    may_wait = Q(GreaterThan(StrIndex("tail", Value("in_flight")), 0))
    newest = live.filter(is_recent | may_wait, last_entry_at__gte=now - OPEN_CALL)[:MAX_ACTIVE]
    return [session for session in newest if is_active(session, now)]


@limit_statements(LIST_SECONDS)
def recording_forks(project: UUID, active: Sequence[Session]) -> dict[UUID, list[Session]]:
    """The active forks of each session, also the forks of its forks. One query, or none without forks.

    Args:
        active: the sessions that :func:`active_sessions` returned.
    """
    forks = {session.pk: session for session in active if session.forked_from_id}
    if not forks:
        return {}
    statement = _ANCESTORS.format(ids=", ".join(["%s"] * len(forks)), depth=MAX_ANCESTORS)
    rows = fetch_all(statement, [uuid_value(project), *map(uuid_value, forks)])
    pairs = {(as_uuid(fork), as_uuid(parent)) for fork, parent in rows}
    of_parents: dict[UUID, list[Session]] = {parent: [] for _, parent in pairs}
    for parent, found in of_parents.items():
        found += [session for session in forks.values() if (session.pk, parent) in pairs]
    return of_parents


def is_active(session: Session, now: datetime) -> bool:
    """Whether a live session has an entry of the last minutes or an open call of the last day."""
    if session.status != Session.Status.LIVE or session.last_entry_at < now - OPEN_CALL:
        return False
    step = session.live_tail.step
    return session.last_entry_at >= now - ACTIVE_WITHIN or (step is not None and step.status == "in_flight")


def _of_agent(agent: str | None, prefix: str = "") -> Q:
    return Q() if agent is None else Q(**{f"{prefix}agent": agent})


def running_compressions(project: UUID, agent: str | None = None) -> list[CompressionRun]:
    """Waiting and running compressions, newest first."""
    of_agent = _of_agent(agent, "session__")
    active = CompressionRun.objects.filter(of_agent, project=project, state__in=CompressionRun.ACTIVE)
    active = active.select_related("session").defer(*large_columns("session"))
    return list(active.order_by("-pk")[:MAX_ACTIVE])


def newest_failures(project: UUID, first: date, last: date, agent: str | None = None) -> list[RecentFailure]:
    """The newest failing step of each run, newest first, between two days (UTC).

    Reads the sessions whose newest entry is on these days, so no step is later than them.

    Args:
        agent: only sessions of this agent.
    """
    columns = (
        "title",
        "errors",
        "likely_failures",
        "head",
        "closed_spans",
        "tail_start",
        "forked_from",
        "project",
    )
    on_days = SessionCriteria(first=first, last=last).in_time
    chosen = Session.objects.filter(on_days, _of_agent(agent), project=project).exclude(status="archived")
    newest = chosen.newest_first().only(*columns)[:_MAX_SESSIONS]
    sessions = {session.pk: session for session in newest}
    parts = [f"SELECT * FROM ({statement}) AS part" for _ in sessions for statement in _KINDS]  # noqa: S608
    values = [uuid_value(id) for id in sessions for _ in _KINDS]
    rows = fetch_all(" UNION ALL ".join(parts), values) if parts else []
    failures = dict[UUID, RecentFailure]()
    for id, number, position, tool, likely, line, call, at in rows:
        session, moment = sessions[as_uuid(id)], as_aware(at)
        shown = failures.get(session.pk)
        is_newer = shown is None or number > shown.number
        if is_newer and moment.date() >= first and session.lineage().contains(str(session.pk), position):
            failures[session.pk] = RecentFailure(session, number, tool, bool(likely), line, call, moment)
    return sorted(failures.values(), key=lambda failure: failure.at, reverse=True)[:MAX_FAILURES]
