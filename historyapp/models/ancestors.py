"""The sessions that a session was forked from, and the kinds of rare rows of each, in one query.

A fork of two hundred forks shares entries of two hundred sessions. Only a few of these have instructions,
inputs or summaries, so only these are queried. A process caches which sessions have which kinds of entries,
because the entries that a fork shares never change. Summaries of shared entries may still be added.
"""

import threading
from collections.abc import Collection, Container, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from historyapp.core.fork_parts import ForkParts
from historyapp.core.lineage import Span
from historyapp.models.fields import as_uuid, owners_table, owners_value, uuid_text, uuid_value
from historyapp.models.run_sql import run_sql

SUMMARIES, NOTES = "summaries", "notes"
"""The kinds for summaries and notes. Unlike entries, they may be added to shared steps later."""
MAX_DEPTH = 1_000
"""The maximum number of forks, each of the one before: reads of the last one take time for each."""
MAX_CACHED, MAX_ANCESTORS = 100, 30_000
"""The maximum number of forks whose ancestors a process caches, and of their ancestors together, 500 bytes
each. The oldest are dropped first."""
_CHAIN = """
WITH RECURSIVE chain (id, parent, shared, revision, depth) AS (
    SELECT id, forked_from_id, fork_position, revision, 0 FROM historyapp_session WHERE id = %s
    UNION ALL
    SELECT session.id, session.forked_from_id, session.fork_position, session.revision, chain.depth + 1
    FROM chain JOIN historyapp_session AS session ON session.id = chain.parent{limit}
)
"""
_HAS_ENTRY = "EXISTS (SELECT 1 FROM historyapp_entry WHERE session_id = chain.id AND kind = '{}')"
_LATER_TABLES = {SUMMARIES: "historyapp_summary", NOTES: "historyapp_stepnote"}
_WITH_ROWS = "SELECT owner.value FROM {} WHERE EXISTS (SELECT 1 FROM {} WHERE session_id = owner.value)"
_DEPTH = f"{_CHAIN.format(limit=' WHERE chain.depth < %s')}SELECT MAX(depth) FROM chain"  # noqa: S608
_REVISIONS = f"{_CHAIN.format(limit='')}SELECT SUM(revision) FROM chain"  # noqa: S608
_REVISIONS_OF = (
    "SELECT SUM(revision) FROM {} CROSS JOIN historyapp_session AS session WHERE session.id = owner.value"
)


class Ancestor(NamedTuple):
    """A session, or one that it was forked from."""

    id: UUID
    name: str
    """The id as spans have it: reads of a fork of two hundred forks need it two hundred times."""
    shared: int
    """The session's own entries begin after this position."""
    has: frozenset[str]
    """The requested kinds of entries that it has."""


_cache: dict[UUID, tuple[Ancestor, ...]] = {}
_parts: dict[UUID, tuple[tuple[Ancestor, ...], ForkParts | None]] = {}
"""The results of :func:`cached_fork_parts`, each with the ancestors that it was computed from."""
_lock = threading.Lock()


def ancestors(session: UUID, kinds: Collection[str], parent: UUID | None = None) -> tuple[Ancestor, ...]:
    """A fork and the sessions that it was forked from, newest first.

    Args:
        kinds: kinds of entries. Must be the same in every call.
        parent: the session that it was forked from, if the caller knows it.
    """
    cached = _cache.get(session)
    if cached is None:
        parent_chain = _cache.get(parent, ()) if parent else ()
        # The parent itself is read again, because it may have more kinds of entries than when it was cached.
        cached = _read_ancestors(session, kinds, max_depth=1 if parent_chain else None)
        if cached:  # empty if the fork is not stored yet
            cached += parent_chain[1:]
            with _lock:
                _cache[session] = cached
                left = sum(map(len, _cache.values()))
                while len(_cache) > MAX_CACHED or left > MAX_ANCESTORS:
                    left -= len(_cache.pop(next(iter(_cache))))
    return cached


def is_deepest(session: UUID) -> bool:
    """Whether a session is a fork of :data:`MAX_DEPTH` forks. False if it is not stored."""
    ((depth,),) = run_sql(_DEPTH, [uuid_value(session), MAX_DEPTH])
    return int(depth or 0) == MAX_DEPTH


def cached_fork_points(session: UUID, places: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of the places (session, position) at which a fork or one of its ancestors begins. Empty unless
    the ancestors are cached."""
    chain = _cache.get(session, ())
    positions = {position for _, position in places} if chain else set[int]()
    begins = {(ancestor.name, ancestor.shared) for ancestor in chain if ancestor.shared in positions}
    return begins.intersection(places)


def cached_fork_parts(session: UUID) -> ForkParts | None:
    """The entries that a fork shares, up to the newest ancestor that was rewound. None if there are none, or
    if the ancestors are not cached."""
    chain = _cache.get(session)
    if chain is None:
        return None
    known = _parts.get(session)
    if known is None or known[0] is not chain:
        known = chain, _fork_parts(chain)
        with _lock:
            _parts[session] = known
            for dropped in _parts.keys() - _cache.keys():
                del _parts[dropped]
    return known[1]


def _fork_parts(chain: Sequence[Ancestor]) -> ForkParts | None:
    sessions, firsts, last = list[str](), list[int](), chain[0].shared
    for ancestor in chain[1:]:
        if "rewind" in ancestor.has:
            break
        if ancestor.shared < last:
            sessions.append(ancestor.name)
            firsts.append(ancestor.shared + 1)
            last = ancestor.shared
    return ForkParts(sessions[::-1], firsts[::-1], chain[0].shared) if sessions else None


def _read_ancestors(session: UUID, kinds: Collection[str], *, max_depth: int | None) -> tuple[Ancestor, ...]:
    """``max_depth``: the number of forks to follow from the session to its ancestors; None: all."""
    conditions = [_HAS_ENTRY.format(kind) for kind in kinds]
    limit = "" if max_depth is None else f" WHERE chain.depth < {max_depth}"
    with connection.cursor() as cursor:
        chain, columns = _CHAIN.format(limit=limit), ["id", "shared", *conditions]
        query = f"{chain}SELECT {', '.join(columns)} FROM chain ORDER BY depth"  # noqa: S608
        cursor.execute(query, [uuid_value(session)])
        rows = cursor.fetchall()
    ancestors_read = []
    for id, shared, *flags in rows:
        has = frozenset(kind for kind, flag in zip(kinds, flags, strict=True) if flag)
        ancestors_read.append(Ancestor(as_uuid(id), uuid_text(id), shared, has))
    return tuple(ancestors_read)


def ancestors_with(kind: str, chain: Sequence[Ancestor]) -> set[UUID]:
    """The ancestors that have rows of a rare kind: a kind of entries, or one of ``_LATER_TABLES``."""
    if kind not in _LATER_TABLES:
        return {ancestor.id for ancestor in chain if kind in ancestor.has}
    statement = _WITH_ROWS.format(owners_table(), _LATER_TABLES[kind])
    rows = run_sql(statement, [owners_value([ancestor.name for ancestor in chain])])
    return {as_uuid(id) for (id,) in rows}


def revisions(session: UUID) -> int:
    """The sum of the revisions of a session and of the sessions that it was forked from."""
    cached = _cache.get(session)
    if cached is None:
        ((total,),) = run_sql(_REVISIONS, [uuid_value(session)])
    else:  # every read of a fork needs the sum, and following 200 forks takes twice as long
        ids = owners_value([ancestor.name for ancestor in cached])
        ((total,),) = run_sql(_REVISIONS_OF.format(owners_table()), [ids])
    return int(total)


def ancestor_spans(chain: Sequence[Ancestor], last: int, having: Container[UUID]) -> Iterator[Span]:
    """The spans, one for each session, that may have live rows up to a position. Newest first.

    Args:
        having: the ancestors that have such rows. The session itself may have new ones.
    """
    for number, ancestor in enumerate(chain):
        if (number == 0 or ancestor.id in having) and ancestor.shared < last:
            yield Span(ancestor.name, ancestor.shared + 1, last)
        last = min(last, ancestor.shared)
