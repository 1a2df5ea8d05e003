"""Counts the figures of sessions by day and adds them to the figures of their projects; see
``historyapp.models.day_figures``.

A session's figures are computed without a lock and then stored in one transaction, unless another process has
counted the session meanwhile. Counting continues where it stopped, so only new entries take time.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from historyapp.core.day_figures import NO_FIGURES, DayFigures, FiguresKey, day_of
from historyapp.core.lineage import Lineage
from historyapp.models import CountedSession, Session, SessionDay
from historyapp.models.day_figures import MAX_NAME
from historyapp.services.figures.counted_entries import BATCH_SIZE, CountedPart, CountedStep
from historyapp.services.figures.day_rows import AgentFigures, SessionFigures, add_to_days
from historyapp.services.transactions import writing

VERSION = 1
"""The version of the counting rules. Sessions that were counted by other rules are counted again."""
SESSIONS_AT_ONCE = 50
_COLUMNS = (
    "project", "agent", "model", "created_at", "head", "closed_spans", "tail_start", "forked_from",
    "fork_position", "fork_spans",
)  # fmt: skip
_STATE = ("project", "version", "head", "agent", "model", "began", "newest")


@dataclass(slots=True)
class _FiguresChange:
    """The changes of figures since a session was last counted."""

    old: CountedSession | None
    """None if the session was not counted before."""
    new: CountedSession | None
    """None if the session was deleted."""
    replaces: bool = False
    """Whether the session's stored figures are deleted first."""
    own: SessionFigures = field(default_factory=lambda: defaultdict(DayFigures))
    """The changes of the session's rows."""
    agents: AgentFigures = field(default_factory=lambda: defaultdict(DayFigures))
    """The changes of the project's rows, by agent."""
    entries: int = 0
    is_complete: bool = True

    def add(self, key: FiguresKey, figures: DayFigures) -> None:
        assert self.new is not None
        self.own[key] = self.own[key].plus(figures)
        self._add_to_agent(self.new, key, figures)

    def subtract(self, key: FiguresKey, figures: DayFigures) -> None:
        self.add(key, NO_FIGURES.minus(figures))

    def move(self, key: FiguresKey, figures: DayFigures, *, is_live: bool) -> None:
        """Moves figures from takes to the live history, or back."""
        self.subtract(key._replace(is_live=not is_live), figures)
        self.add(key._replace(is_live=is_live), figures)

    def rename(self, rows: Iterable[tuple[FiguresKey, DayFigures]]) -> None:
        """Moves the stored figures to the current agent and model, or removes them from the project."""
        for key, figures in rows:
            assert self.old is not None
            self._add_to_agent(self.old, key, NO_FIGURES.minus(figures))
            if self.new is not None and not self.replaces:
                self._add_to_agent(self.new, key, figures)

    def _add_to_agent(self, counted: CountedSession, key: FiguresKey, figures: DayFigures) -> None:
        agent_key = counted.project_id, counted.agent, key._replace(model=key.model or counted.model)
        self.agents[agent_key] = self.agents[agent_key].plus(figures)


def count_part(project: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Counts about :data:`BATCH_SIZE` entries of some sessions of a project. Returns the sessions that have
    more."""
    batch = sorted(ids[:SESSIONS_AT_ONCE])
    sessions = Session.objects.filter(project=project, pk__in=batch).only(*_COLUMNS).in_bulk()
    counted = CountedSession.objects.in_bulk(batch)
    changes, incomplete, entries = list[_FiguresChange](), list[UUID](), 0
    for id in batch:
        if entries >= BATCH_SIZE:
            incomplete.append(id)
            continue
        change = _change(project, sessions.get(id), counted.get(id))
        if change is not None:
            changes.append(change)
            entries += change.entries
            incomplete += [] if change.is_complete else [id]
    _store(changes)
    return [*incomplete, *ids[SESSIONS_AT_ONCE:]]


def _change(project: UUID, session: Session | None, old: CountedSession | None) -> _FiguresChange | None:
    """The changes of a session's figures, or None."""
    if session is None:
        if old is None or old.project_id != project:
            return None
        change = _FiguresChange(old, None, replaces=True)
        change.rename(stored_rows(old.session_id))
        return change
    is_known = old is not None and old.project_id == project and old.version == VERSION
    if old is not None and is_known and old.head <= session.head:
        change = _FiguresChange(old, copy(old))
    else:
        uncounted = CountedSession(session_id=session.pk, project_id=project, version=VERSION)
        uncounted.head = session.fork_position
        change = _FiguresChange(old, uncounted, replaces=old is not None)
    new = change.new
    assert new is not None
    new.agent, new.model = session.agent[:MAX_NAME], session.model[:MAX_NAME]
    if old is not None and (change.replaces or (old.agent, old.model) != (new.agent, new.model)):
        change.rename(stored_rows(session.pk))
    _count_beginning(change, new, day_of(session.created_at))
    if new.head < session.head:
        _count_entries(change, session, new)
    if not change.replaces and old is not None and _state(old) == _state(new):
        return None
    return change


def _count_beginning(change: _FiguresChange, new: CountedSession, day: date) -> None:
    if new.began == day:
        return
    if new.began is not None:
        change.subtract(FiguresKey(new.began, "", "", has_cost=False), DayFigures(sessions=1))
    change.add(FiguresKey(day, "", "", has_cost=False), DayFigures(sessions=1))
    new.began = day


def _count_entries(change: _FiguresChange, session: Session, new: CountedSession) -> None:
    """Counts the next entries of a session."""
    counted, last = new.head, min(session.head, new.head + BATCH_SIZE)
    lineage = session.lineage(last)
    rewound = session.rewinds().filter(position__gt=counted, position__lte=last).exists()
    session_id, newest = str(session.pk), _load_newest(new.newest)
    if newest is not None:
        change.subtract(newest.key, newest.figures)
    if rewound:
        _move_rewound(change, session, lineage, newest.anchor if newest else 0)
    part = CountedPart(session, counted + 1, last)
    for entry in part.entries():
        is_live = not rewound or lineage.contains(session_id, entry.position)
        change.add(entry.key._replace(is_live=is_live), entry.figures)
    for step in part.steps():
        is_live = lineage.contains(session_id, min(step.position, last))
        newest = step._replace(key=step.key._replace(is_live=is_live))
        change.add(newest.key, newest.figures)
    new.head, new.newest = last, _dump_newest(newest)
    change.entries, change.is_complete = last - counted, last == session.head


def _move_rewound(change: _FiguresChange, session: Session, lineage: Lineage, excluded: int) -> None:
    """Moves the figures of counted entries that rewinds have cut off or restored.

    Args:
        excluded: the anchor of a step whose figures are not included now.
    """
    assert change.new is not None
    counted = change.new.head
    old_lineage = session.lineage(counted)
    cut_off, restored = old_lineage.branch_off(lineage), lineage.branch_off(old_lineage)
    for spans, is_live in ((cut_off, False), (restored, True)):
        for first, last in _own_parts(spans, session, counted):
            part = CountedPart(session, first, last)
            for entry in part.entries():
                change.move(entry.key, entry.figures, is_live=is_live)
            for step in part.steps():
                if first <= step.position <= last and step.anchor != excluded and step.figures:
                    change.move(step.key, step.figures, is_live=is_live)
            change.entries += last - first + 1


def _own_parts(spans: Lineage, session: Session, last: int) -> Iterator[tuple[int, int]]:
    for span in spans.spans:
        if span.session == str(session.pk):
            for first in range(span.first, min(span.last, last) + 1, BATCH_SIZE):
                yield first, min(first + BATCH_SIZE - 1, span.last, last)


def _dump_newest(newest: CountedStep | None) -> Any:
    if newest is None:
        return None
    day, *rest = newest.key
    return [newest.anchor, newest.position, [day.isoformat(), *rest], list(newest.figures)]


def _load_newest(stored: Any) -> CountedStep | None:
    if stored is None:
        return None
    anchor, position, (day, *rest), figures = stored
    return CountedStep(anchor, position, FiguresKey(date.fromisoformat(day), *rest), DayFigures(*figures))


def stored_rows(session: UUID) -> list[tuple[FiguresKey, DayFigures]]:
    """A session's stored figures."""
    rows = SessionDay.objects.filter(session_id=session)
    keys = rows.values_list(*FiguresKey._fields, *DayFigures._fields)
    width = len(FiguresKey._fields)
    return [(FiguresKey(*row[:width]), DayFigures(*row[width:])) for row in keys]


def _state(counted: CountedSession) -> list[Any]:
    return [counted.project_id, *(getattr(counted, name) for name in _STATE[1:])]


def _store(changes: Sequence[_FiguresChange]) -> None:
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


def _is_unchanged(change: _FiguresChange, locked: dict[UUID, CountedSession]) -> bool:
    old, counted = change.old, change.old or change.new
    assert counted is not None
    row = locked.get(counted.pk)
    if row is None:
        return False
    return row.version == 0 and row.began is None if old is None else _state(row) == _state(old)
