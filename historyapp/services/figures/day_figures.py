"""Counts the figures of sessions by day and adds them to the figures of their projects; see
``historyapp.models.day_figures``.

A session's figures are computed without a lock and then stored, unless another process has counted the
session meanwhile. Counting continues where it stopped, so only new entries take time. A change that affects
many rows takes several transactions, see ``day_changes``.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any
from uuid import UUID

from historyapp.core.day_figures import DayFigures, FiguresKey, day_of
from historyapp.core.lineage import Lineage
from historyapp.models import CountedSession, Session, SessionDay
from historyapp.models.day_figures import MAX_NAME
from historyapp.services.figures.counted_entries import BATCH_SIZE, CountedPart, CountedStep
from historyapp.services.figures.day_changes import (
    FiguresChange,
    dump_key,
    is_being_renamed,
    load_key,
    removal_part,
    rename_part,
    stored_rows,
)
from historyapp.services.figures.day_rows import AgentFigures, add_to_days
from historyapp.services.transactions import writing

VERSION = 2
"""The version of the counting rules. Sessions that were counted by other rules are counted again."""
SESSIONS_AT_ONCE = 50
MAX_ROWS = 2000
"""A transaction stores no further session after this many changed rows."""
MOVED_AT_ONCE = 500
"""The maximum number of entries that one transaction moves to takes or back."""
_COLUMNS = (
    "project", "agent", "model", "created_at", "head", "closed_spans", "tail_start", "forked_from",
    "fork_position", "fork_spans",
)  # fmt: skip
_STATE = ("project", "version", "head", "agent", "model", "began", "newest", "moving")


def count_part(project: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Counts about :data:`BATCH_SIZE` entries of some sessions of a project. Returns the sessions that have
    more."""
    batch = sorted(ids[:SESSIONS_AT_ONCE])
    sessions = Session.objects.filter(project=project, pk__in=batch).only(*_COLUMNS).in_bulk()
    counted = CountedSession.objects.in_bulk(batch)
    changes, incomplete, entries, rows = list[FiguresChange](), list[UUID](), 0, 0
    for id in batch:
        if entries >= BATCH_SIZE or rows >= MAX_ROWS:
            incomplete.append(id)
            continue
        change = _change(project, sessions.get(id), counted.get(id))
        if change is not None:
            changes.append(change)
            entries += change.entries
            rows += change.rows
            incomplete += [] if change.is_complete else [id]
    _store(changes)
    return [*incomplete, *ids[SESSIONS_AT_ONCE:]]


def _change(project: UUID, session: Session | None, old: CountedSession | None) -> FiguresChange | None:
    """The changes of a session's figures, or None."""
    if session is None and (old is None or old.project_id != project):
        return None
    if old is not None and is_being_renamed(old):
        return rename_part(old, old.agent, old.model)
    if session is not None and old is not None and _is_current(project, session, old):
        return _new_figures(session, old)
    if old is not None and (part := removal_part(old)):
        return part
    new = None
    if session is not None:
        new = CountedSession(session_id=session.pk, project_id=project, version=VERSION)
        new.head = session.fork_position
    change = FiguresChange(old, new, replaces=old is not None)
    if old is not None:
        change.remove_from_project(stored_rows(old.session_id))
    if session is not None and new is not None:
        new.agent, new.model = _names(session)
        _count(change, session, new)
    return change


def _is_current(project: UUID, session: Session, old: CountedSession) -> bool:
    """Whether the stored figures only lack newer entries and names."""
    return old.project_id == project and old.version == VERSION and old.head <= session.head


def _new_figures(session: Session, old: CountedSession) -> FiguresChange | None:
    """The changes of a session that was counted before, or None."""
    names = _names(session)
    if names != (old.agent, old.model) and old.moving is None:
        return rename_part(old, *names)
    new = copy(old)
    change = FiguresChange(old, new)
    _count(change, session, new)
    change.is_complete = change.is_complete and names == (new.agent, new.model)
    return None if _state(old) == _state(new) else change


def _names(session: Session) -> tuple[str, str]:
    return session.agent[:MAX_NAME], session.model[:MAX_NAME]


def _count(change: FiguresChange, session: Session, new: CountedSession) -> None:
    day = day_of(session.created_at)
    if new.began != day:
        if new.began is not None:
            change.subtract(FiguresKey(new.began, "", "", has_cost=False), DayFigures(sessions=1))
        change.add(FiguresKey(day, "", "", has_cost=False), DayFigures(sessions=1))
        new.began = day
    if new.head < session.head:
        _count_entries(change, session, new)


def _count_entries(change: FiguresChange, session: Session, new: CountedSession) -> None:
    """Counts the next entries of a session, or moves the next of those that rewinds in them have cut off."""
    counted, last, moved = new.head, min(session.head, new.head + BATCH_SIZE), 0
    if new.moving is not None:
        _, last, moved = new.moving
    lineage = session.lineage(last)
    rewound = session.rewinds().filter(position__gt=counted, position__lte=last).exists()
    session_id, newest = str(session.pk), _load_newest(new.newest)
    if rewound:
        moved_now = _move_rewound(change, session, lineage, (moved, newest.anchor if newest else 0))
        if moved_now == MOVED_AT_ONCE:
            new.moving, change.is_complete = ["rewind", last, moved + moved_now], False
            return
    new.moving = None
    if newest is not None:
        change.subtract(newest.key, newest.figures)
    part = CountedPart(session, counted + 1, last)
    for entry in part.entries():
        is_live = not rewound or lineage.contains(session_id, entry.position)
        change.add(entry.key._replace(is_live=is_live), entry.figures)
    for step in part.steps():
        is_live = lineage.contains(session_id, min(step.position, last))
        newest = step._replace(key=step.key._replace(is_live=is_live))
        change.add(newest.key, newest.figures)
    new.head, new.newest = last, _dump_newest(newest)
    change.entries += last - counted
    change.is_complete = last == session.head


def _move_rewound(
    change: FiguresChange, session: Session, lineage: Lineage, progress: tuple[int, int]
) -> int:
    """Moves the figures of the next counted entries that rewinds have cut off or restored.

    Returns how many entries were moved; fewer than :data:`MOVED_AT_ONCE` were the last ones.

    Args:
        progress: how many entries were moved before, and the anchor of a step whose figures move later.
    """
    assert change.new is not None
    counted, (skipped, excluded) = change.new.head, progress
    old_lineage = session.lineage(counted)
    cut_off, restored = old_lineage.branch_off(lineage), lineage.branch_off(old_lineage)
    left = MOVED_AT_ONCE
    for spans, is_live in ((cut_off, False), (restored, True)):
        for first, last in _own_parts(spans, session, counted):
            size = last - first + 1
            if skipped >= size or not left:
                skipped -= min(size, skipped)
                continue
            first, last = first + skipped, min(last, first + skipped + left - 1)
            left, skipped = left - (last - first + 1), 0
            part = CountedPart(session, first, last)
            for entry in part.entries():
                change.move(entry.key, entry.figures, is_live=is_live)
            for step in part.steps():
                if first <= step.position <= last and step.anchor != excluded and step.figures:
                    change.move(step.key, step.figures, is_live=is_live)
    change.entries += MOVED_AT_ONCE - left
    return MOVED_AT_ONCE - left


def _own_parts(spans: Lineage, session: Session, last: int) -> Iterator[tuple[int, int]]:
    """The first and last positions of a session's own entries in these spans, up to a position."""
    for span in spans.spans:
        if span.session == str(session.pk) and span.first <= last:
            yield span.first, min(span.last, last)


def _dump_newest(newest: CountedStep | None) -> Any:
    if newest is None:
        return None
    return [newest.anchor, newest.position, dump_key(newest.key), list(newest.figures)]


def _load_newest(stored: Any) -> CountedStep | None:
    if stored is None:
        return None
    anchor, position, key, figures = stored
    return CountedStep(anchor, position, load_key(key), DayFigures(*figures))


def _state(counted: CountedSession) -> list[Any]:
    return [counted.project_id, *(getattr(counted, name) for name in _STATE[1:])]


def _store(changes: Sequence[FiguresChange]) -> None:
    """Stores the changes of sessions, except those that another process has counted meanwhile."""
    if not changes:
        return
    ids = [counted.pk for change in changes if (counted := change.new or change.old)]
    with writing():
        new = [change.new for change in changes if change.old is None and change.new is not None]
        # The first process to insert the row counts the session; the others find the row changed.
        placeholders = [CountedSession(session_id=row.pk, project_id=row.project_id) for row in new]
        CountedSession.objects.bulk_create(placeholders, ignore_conflicts=True)
        locked = {
            row.pk: row
            for row in CountedSession.objects.select_for_update().filter(pk__in=ids).order_by("pk")
        }
        valid = [change for change in changes if _is_unchanged(change, locked)]
        removed_ids = [change.old.pk for change in valid if change.replaces and change.old is not None]
        SessionDay.objects.filter(session_id__in=removed_ids).delete()
        own = {change.new.pk: change.own for change in valid if change.new is not None}
        agents: AgentFigures = defaultdict(DayFigures)
        for change in valid:
            for agent_key, figures in change.agents.items():
                agents[agent_key] = agents[agent_key].plus(figures)
        add_to_days(own, agents)
        CountedSession.objects.filter(pk__in=[id for id in removed_ids if id not in own]).delete()
        CountedSession.objects.bulk_create(
            [change.new for change in valid if change.new is not None],
            update_conflicts=True,
            unique_fields=["session_id"],
            update_fields=_STATE,
        )


def _is_unchanged(change: FiguresChange, locked: dict[UUID, CountedSession]) -> bool:
    """Whether the stored figures are still those with which a change was computed."""
    old, counted = change.old, change.old or change.new
    assert counted is not None
    row = locked.get(counted.pk)
    if row is None:
        return False
    return row.version == 0 and row.began is None if old is None else _state(row) == _state(old)
