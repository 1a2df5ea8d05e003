"""Forks and sub-agents that a list shows below their parent session."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q

from historyapp.models.sessions import Session, SessionQuerySet


class ChildCounts(NamedTuple):
    """The number of a session's forks and sub-agents, without archived ones."""

    forks: int = 0
    subagents: int = 0


def top_level(sessions: SessionQuerySet) -> SessionQuerySet:
    """The sessions without a listed parent. Children of an archived session are top-level."""
    alone = [
        Q(**{parent: None}) | Q(**{f"{parent}__status": "archived"})
        for parent in ("forked_from", "spawned_by")
    ]
    return sessions.filter(*alone)


def children_of(sessions: SessionQuerySet, parent: UUID) -> SessionQuerySet:
    """The forks and the sub-agents of a session."""
    return sessions.filter(Q(forked_from=parent) | Q(spawned_by=parent))


def child_counts(parents: Collection[UUID]) -> dict[UUID, ChildCounts]:
    """The numbers of forks and sub-agents by parent. Uses the indexes of both columns."""
    counts = [
        dict(
            Session.objects.filter(**{f"{column}__in": parents})
            .exclude(status=Session.Status.ARCHIVED)
            .values_list(column)
            .annotate(Count("pk"))
            .order_by()
        )
        for column in ("forked_from", "spawned_by")
    ]
    return {
        parent: ChildCounts(*(count.get(parent, 0) for count in counts))
        for parent in parents
        if any(parent in count for count in counts)
    }
