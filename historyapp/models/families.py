"""Families: the sessions that were forked from one session, directly or through other forks."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from historyapp.models.fields import as_uuid, uuid_value
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_SHARING = 5_000
"""The maximum number of sessions of a family, apart from the ancestors, that :class:`SharedEntries` reads."""
_IDS_AT_ONCE = 500
_COLUMNS = "session.id, session.forked_from_id, session.fork_position"
_FAMILY = f"""
WITH RECURSIVE chain (id, parent, shared) AS (
    SELECT {_COLUMNS} FROM historyapp_session AS session WHERE id = %s
    UNION ALL
    SELECT {_COLUMNS} FROM chain JOIN historyapp_session AS session ON session.id = chain.parent
), family (id, parent, shared) AS (
    SELECT id, parent, shared FROM chain WHERE parent IS NULL
    UNION ALL
    SELECT {_COLUMNS} FROM family JOIN historyapp_session AS session ON session.forked_from_id = family.id
)
SELECT id, parent, shared FROM chain
UNION SELECT id, parent, shared FROM (SELECT id, parent, shared FROM family LIMIT %s) AS limited
"""  # noqa: S608


class FamilyPart(NamedTuple):
    """A session in an export of its family."""

    session: UUID
    head: int
    """The export contains the session's own entries up to this position."""


class _Row(NamedTuple):
    id: UUID
    parent: UUID | None
    fork_position: int
    head: int
    created_at: datetime


class SharedEntries:
    """The sessions of the family of a session, which share entries with it. One query."""

    def __init__(self, session: UUID) -> None:
        self._forked_from = dict[UUID, tuple[UUID | None, int]]()
        for id, parent, shared in fetch_all(_FAMILY, [uuid_value(session), MAX_SHARING]):
            self._forked_from[as_uuid(id)] = as_uuid(parent) if parent else None, shared

    @property
    def sessions(self) -> list[UUID]:
        return list(self._forked_from)

    def fork_points(self) -> dict[UUID, tuple[UUID, int]]:
        """The last entry that each fork shares with its parent: the session that recorded it, and its
        position. Without forks that share nothing."""
        return {
            fork: (self.owner(parent, shared), shared)
            for fork, (parent, shared) in self._forked_from.items()
            if parent is not None and shared
        }

    def owner(self, session: UUID, position: int) -> UUID:
        """The session that has recorded the entry which a session of the family has at a position."""
        while True:
            parent, shared = self._forked_from.get(session, (None, 0))
            if parent is None or position > shared:
                return session
            session = parent


def by_family(ids: Sequence[UUID]) -> list[list[UUID]]:
    """The sessions, grouped by family. Sessions that do not exist have a group each."""
    parents = {row.id: row.parent for row in _with_ancestors(_read("pk", ids)).values()}
    oldest = dict[UUID, UUID]()
    families = defaultdict[UUID, list[UUID]](list)
    for id in ids:
        ancestor, passed = id, list[UUID]()
        while ancestor not in oldest and (parent := parents.get(ancestor)) is not None:
            passed.append(ancestor)
            ancestor = parent
        ancestor = oldest.get(ancestor, ancestor)
        oldest.update(dict.fromkeys(passed, ancestor))
        families[ancestor].append(id)
    return list(families.values())


def family_parts(ids: Collection[UUID], as_of: int | None = None) -> list[FamilyPart]:
    """The parts of an export of sessions of one family: these sessions, all their forks, and the entries that
    they share with their ancestors.

    Each session occurs once, after the session that it was forked from. Empty if no session exists.

    Args:
        as_of: for a single session: the position at which it ends. Its forks are left out.
    """
    complete = _read("pk", ids)
    generation = list(complete) if as_of is None else []
    while generation:
        forks = _read("forked_from", generation)
        generation = [id for id in forks if id not in complete]
        complete |= forks
    rows = _with_ancestors(complete)
    ordered = _parents_first(rows)
    heads = dict.fromkeys(rows, 0)
    for row in reversed(ordered):
        if row.id in complete:
            heads[row.id] = row.head if as_of is None else as_of
        if row.parent is not None:
            heads[row.parent] = max(heads[row.parent], min(row.fork_position, heads[row.id]))
    return [FamilyPart(row.id, heads[row.id]) for row in ordered]


def _with_ancestors(rows: dict[UUID, _Row]) -> dict[UUID, _Row]:
    """The rows with those of their ancestors. One query for each generation."""
    known, generation = dict(rows), list(rows.values())
    while missing := {row.parent for row in generation if row.parent and row.parent not in known}:
        read = _read("pk", missing)
        known |= read
        generation = list(read.values())
    return known


def _parents_first(rows: dict[UUID, _Row]) -> list[_Row]:
    children = defaultdict[UUID | None, list[_Row]](list)
    for row in rows.values():
        children[row.parent].append(row)
    ordered, generation = list[_Row](), children[None]
    while generation:
        generation.sort(key=lambda row: (row.created_at, row.id))
        ordered += generation
        generation = [child for row in generation for child in children[row.id]]
    return ordered


def _read(column: str, ids: Collection[UUID]) -> dict[UUID, _Row]:
    """The sessions whose column has one of these values, by their ids."""
    values, rows = list(ids), dict[UUID, _Row]()
    for start in range(0, len(values), _IDS_AT_ONCE):
        sessions = Session.objects.filter(**{f"{column}__in": values[start : start + _IDS_AT_ONCE]})
        columns = sessions.values_list("pk", "forked_from_id", "fork_position", "head", "created_at")
        rows |= {row.id: row for row in map(_Row._make, columns)}
    return rows
