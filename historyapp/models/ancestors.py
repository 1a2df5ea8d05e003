"""The sessions that a session was forked from, one query for all, and what rare rows each of them has.

A fork of two hundred forks shares entries of two hundred sessions. Instructions, inputs and summaries are in
few of these, so the others are not asked.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from historyapp.core.lineage import Span
from historyapp.models.fields import uuid_value

SUMMARIES = "summaries"
"""Stands among the kinds of rows for summaries."""
_CHAIN = """
WITH RECURSIVE chain (id, parent, shared, revision, depth) AS (
    SELECT id, forked_from_id, fork_position, revision, 0 FROM historyapp_session WHERE id = %s
    UNION ALL
    SELECT session.id, session.forked_from_id, session.fork_position, session.revision, chain.depth + 1
    FROM chain JOIN historyapp_session AS session ON session.id = chain.parent
)
"""
_HAS_ENTRY = "EXISTS (SELECT 1 FROM historyapp_entry WHERE session_id = chain.id AND kind = '{}')"
_HAS_SUMMARY = "EXISTS (SELECT 1 FROM historyapp_summary WHERE session_id = chain.id)"
_REVISIONS = f"{_CHAIN}SELECT SUM(revision) FROM chain"  # noqa: S608


class Ancestor(NamedTuple):
    """A session, or one that it was forked from."""

    id: UUID
    shared: int
    """Own entries begin after this position."""
    has: frozenset[str]
    """Kinds of rows that it has at all, among those that were asked for."""


def ancestors(session: UUID, kinds: Collection[str]) -> list[Ancestor]:
    """The session and those that it was forked from, newest first.

    Args:
        kinds: kinds of entries, and :data:`SUMMARIES`.
    """
    conditions = [_HAS_SUMMARY if kind == SUMMARIES else _HAS_ENTRY.format(kind) for kind in kinds]
    with connection.cursor() as cursor:
        query = f"{_CHAIN}SELECT {', '.join(['id', 'shared', *conditions])} FROM chain ORDER BY depth"  # noqa: S608
        cursor.execute(query, [uuid_value(session)])
        rows = cursor.fetchall()
    return [
        Ancestor(
            id if isinstance(id, UUID) else UUID(id),
            shared,
            frozenset(kind for kind, has in zip(kinds, flags, strict=True) if has),
        )
        for id, shared, *flags in rows
    ]


def revisions(session: UUID) -> int:
    """The sum of the revisions of a session and of those that it was forked from."""
    with connection.cursor() as cursor:
        cursor.execute(_REVISIONS, [uuid_value(session)])
        ((found,),) = cursor.fetchall()
    return int(found)


def parts(chain: list[Ancestor], last: int, kind: str) -> Iterator[Span]:
    """Where live rows of a kind may be, up to a position: for each session its part, newest first.

    The session itself may have got its first such row since the chain was read.
    """
    for number, ancestor in enumerate(chain):
        if (number == 0 or kind in ancestor.has) and ancestor.shared < last:
            yield Span(str(ancestor.id), ancestor.shared + 1, last)
        last = min(last, ancestor.shared)
