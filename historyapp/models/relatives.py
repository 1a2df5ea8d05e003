"""The forks of a session and the sessions that its agent started: where they leave its history.

Each list is bounded and read by an index, whatever the length of the history.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from historyapp.models.history import History
from historyapp.models.samples import steps_at
from historyapp.models.sessions import Session

MOST_RELATIVES = 50
"""The newest forks of a session that are read, and likewise its newest sub-agents."""


class ForkPoint(NamedTuple):
    """A fork, and the live step after which it goes its own way; 0: before the first step."""

    id: UUID
    title: str
    step: int


class AgentStart(NamedTuple):
    """A session that the agent of another session started."""

    id: UUID
    title: str
    agent: str
    began: datetime


def fork_points(history: History) -> list[ForkPoint]:
    """The newest forks of a history's session, oldest first; two queries.

    A fork of a take leaves the live history where the take does. In a history of very many spans, forks of
    its oldest part are left out: each would take queries of its own.
    """
    lineage, session = history.lineage, history.session
    oldest = lineage.newest[0].first if lineage.older else 0
    forks = Session.objects.filter(forked_from=session.pk, fork_position__gte=oldest)
    if history.as_of is not None:
        forks = forks.filter(fork_position__lte=history.as_of)
    rows = list(forks.order_by("-id").values_list("id", "title", "fork_position")[:MOST_RELATIVES])
    lasts = [lineage.cut(position).last for *_, position in rows]
    places = [(lineage.session_at(last) or "", last) for last in lasts]
    steps = steps_at({place for place in places if place[1]})
    points = [
        ForkPoint(id, title, steps.get(place, 0)) for (id, title, _), place in zip(rows, places, strict=True)
    ]
    return points[::-1]


def agent_starts(session: Session) -> list[AgentStart]:
    """The newest sub-agents of a session, oldest first; one query."""
    rows = Session.objects.filter(spawned_by=session.pk).order_by("-id")
    found = rows.values_list("id", "title", "agent", "created_at")[:MOST_RELATIVES]
    return [AgentStart(*row) for row in found][::-1]
