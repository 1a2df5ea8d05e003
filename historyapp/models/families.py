"""Families: the sessions that were forked from one session, directly or through other forks."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from historyapp.models.sessions import Session

_IDS_AT_ONCE = 500


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
