"""Forks and sub-agents that a list shows below their parent session."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q

from historyapp.models.sessions import Session, SessionQuerySet
from historyapp.models.sums import LargeSum

UNPRICED = Q(money=0, shown_tokens__gt=0, steps__gt=0)
"""The condition of sessions whose cost is unknown. A session with only an input has cost nothing."""

PARTLY_PRICED = Q(money__gt=0, cost_is_minimum=True)
"""The condition of sessions whose true cost is higher than the known one."""


class ChildCounts(NamedTuple):
    """The number of a session's forks and sub-agents, without archived ones, and what the sub-agents used."""

    forks: int = 0
    subagents: int = 0
    tokens: int = 0
    """The tokens of the sub-agents. Those of their own sub-agents are not included."""
    micros: int = 0
    """The cost of the sub-agents at the prices of their newest entries, in millionths of a dollar."""
    unpriced: int = 0
    """Sub-agents whose cost is unknown, or known only in part."""


def is_top_level(sessions: SessionQuerySet) -> Q:
    """The condition of sessions without a listed parent. Children of an archived session are top-level.

    Joins would read the sessions of all projects on PostgreSQL.

    Args:
        sessions: all sessions of the project.
    """
    archived = sessions.order_by().filter(status=Session.Status.ARCHIVED).values("pk")
    has_no_parent, has_no_starter = Q(forked_from=None), Q(spawned_by=None)
    return (has_no_parent | Q(forked_from__in=archived)) & (has_no_starter | Q(spawned_by__in=archived))


def children_of(sessions: SessionQuerySet, parent: UUID) -> SessionQuerySet:
    """The forks and the sub-agents of a session."""
    return sessions.filter(Q(forked_from=parent) | Q(spawned_by=parent))


def child_counts(parents: Collection[UUID]) -> dict[UUID, ChildCounts]:
    """The figures of forks and sub-agents by parent. Two queries, which use the indexes of both columns."""
    children = Session.objects.exclude(status=Session.Status.ARCHIVED).order_by()
    forks = children.filter(forked_from__in=parents).values_list("forked_from").annotate(Count("pk"))
    of_forks: dict[UUID | None, int] = dict(forks)
    subagents = children.filter(spawned_by__in=parents).values_list("spawned_by")
    subagents = subagents.annotate(
        Count("pk"),
        LargeSum("shown_tokens"),
        LargeSum("money"),
        unpriced=Count("pk", filter=UNPRICED | PARTLY_PRICED),
    )
    of_subagents: dict[UUID | None, tuple[int, ...]] = {row[0]: row[1:] for row in subagents}
    return {
        parent: ChildCounts(of_forks.get(parent, 0), *of_subagents.get(parent, ()))
        for parent in parents
        if parent in of_forks or parent in of_subagents
    }
