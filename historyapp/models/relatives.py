"""The forks and sub-agents of a session, and where forks branch off its history.

The lists are bounded and read by an index.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from historyapp.models.episodes import Episode
from historyapp.models.fields import as_uuid, uuid_value
from historyapp.models.history import History
from historyapp.models.samples import steps_at
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_STARTED = 20
"""The maximum number of sub-agents of one page of the step list. The overview has more."""
MAX_RELATIVES = 50
"""The maximum number of forks of a session to read, and of sub-agents. The newest are read."""
_COLUMNS = "id, title, agent, created_at, fork_position, spawned_position, errors, likely_failures"
_NEWEST = (
    f"SELECT * FROM (SELECT {_COLUMNS}, '{{relation}}' AS relation FROM historyapp_session"  # noqa: S608
    f" WHERE {{column}} = %s ORDER BY id DESC LIMIT {MAX_RELATIVES}) AS {{relation}}"
)
_RELATIVES = " UNION ALL ".join(
    _NEWEST.format(relation=relation, column=column)
    for relation, column in (("fork", "forked_from_id"), ("subagent", "spawned_by_id"))
)

_ANCESTORS = """
WITH RECURSIVE chain (id) AS (
    SELECT id FROM historyapp_session WHERE id = %s
    UNION
    SELECT CASE WHEN is_fork THEN session.forked_from_id ELSE session.spawned_by_id END
    FROM chain JOIN historyapp_session AS session ON session.id = chain.id
    CROSS JOIN (SELECT FALSE AS is_fork UNION ALL SELECT TRUE) AS relation
)
SELECT id FROM chain WHERE id IS NOT NULL LIMIT %s
"""
MAX_ANCESTORS = 1_000
"""The maximum number of sessions of a chain of forks and sub-agents that :func:`ancestors` reads."""


class Relatives(NamedTuple):
    """Sessions with their names and failures, oldest first. Other columns are deferred."""

    forks: list[Session]
    subagents: list[Session]

    @property
    def failed_subagents(self) -> list[Session]:
        """The sub-agents with at least one step that failed or likely failed."""
        return [child for child in self.subagents if child.has_failures]


def relatives_of(session: Session) -> Relatives:
    """The newest forks and sub-agents of a session. One query."""
    relatives = Relatives([], [])
    key = uuid_value(session.pk)
    rows: Any = Session.objects.raw(_RELATIVES, [key, key])
    for row in rows:
        (relatives.forks if row.relation == "fork" else relatives.subagents).append(row)
    return Relatives(relatives.forks[::-1], relatives.subagents[::-1])


def ancestors(session: UUID) -> set[UUID]:
    """A session, and those that it is a fork or a sub-agent of, directly or through others.

    At most ``MAX_ANCESTORS + 1``, which means too many.
    """
    return {as_uuid(id) for (id,) in fetch_all(_ANCESTORS, [uuid_value(session), MAX_ANCESTORS + 1])}


def started_by(history: History, rows: Sequence[Episode], columns: Sequence[str]) -> dict[int, list[Session]]:
    """The sub-agents that some steps started, by step number. At most one query.

    A fork shows the sub-agents of shared steps, which refer to the session that recorded the step.

    Args:
        columns: columns of the sub-agents' sessions to load.
    """
    may_start = [row for row in rows if row.kind == "agent" or len(row.tool_names) > 1]
    if not may_start:
        return {}
    steps = {row.first_position: row for row in may_start}
    owners = {history.session.pk, *(row.session_id for row in may_start)}
    children = Session.objects.filter(spawned_by__in=owners, spawned_position__in=steps)
    children = children.filter(project=history.session.project_id).order_by("spawned_position", "id")
    by_step: dict[int, list[Session]] = {}
    for child in children.defer(None).only("spawned_by", "spawned_position", *columns)[:MAX_STARTED]:
        row = steps[child.spawned_position or 0]
        if child.spawned_by_id in (row.session_id, history.session.pk):
            by_step.setdefault(row.number, []).append(child)
    return by_step


def starting_steps(history: History, subagents: Iterable[Session]) -> dict[UUID, int]:
    """The live step that started each sub-agent, if known, by the sub-agent's id. One query."""
    lineage, places = history.lineage, dict[UUID, tuple[str, int]]()
    for child in subagents:
        place = str(child.spawned_by_id), child.spawned_position or 0
        if child.spawned_position is not None and lineage.contains(*place):
            places[child.pk] = place
    steps = steps_at(set(places.values()))
    return {id: steps[place] for id, place in places.items() if place in steps}


def steps_before(history: History, forks: Sequence[Session]) -> list[int | None]:
    """The live step after which each fork branches off, or 0. One query.

    A fork of a take branches off where the take does. None if the history ends before the fork point, or if
    finding it would take more queries: in the oldest part of a lineage of very many spans.
    """
    lineage, end = history.lineage, history.as_of
    oldest = lineage.newest[0].first if lineage.older else 0
    places: list[tuple[str, int] | None] = []
    for fork in forks:
        is_known = oldest <= fork.fork_position and (end is None or fork.fork_position <= end)
        last = lineage.cut(fork.fork_position).last if is_known else 0
        places.append((lineage.session_at(last) or "", last) if is_known else None)
    steps = steps_at({place for place in places if place and place[1]})
    return [None if place is None else steps.get(place, 0) for place in places]
