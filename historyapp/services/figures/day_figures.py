"""Counts the figures by day of sessions and adds them to their projects'; see
``historyapp.models.day_figures``.

A session's figures are computed without a lock and then stored in one transaction, unless another process has
counted the session meanwhile. Counting continues where it stopped, so only new entries cost time.
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
from historyapp.services.figures.counted_entries import AT_ONCE, CountedPart, CountedStep
from historyapp.services.figures.day_rows import Agents, Own, add_to_days
from historyapp.services.transactions import writing

VERSION = 1
"""The version of the rules. Sessions that were counted by another version are counted again."""
SESSIONS_AT_ONCE = 50
_COLUMNS = (
    "project", "agent", "model", "created_at", "head", "closed_spans", "tail_start", "forked_from",
    "fork_position", "fork_spans",
)  # fmt: skip
_STATE = ("project", "version", "head", "agent", "model", "began", "newest")


@dataclass(slots=True)
class _FiguresChange:
    """The changes of figures since a session was last counted."""

    was: CountedSession | None
    now: CountedSession | None
    """None if the session was deleted."""
    removes: bool = False
    """Whether to subtract the session's stored figures first."""
    own: Own = field(default_factory=lambda: defaultdict(DayFigures))
    agents: Agents = field(default_factory=lambda: defaultdict(DayFigures))
    """The changes of the project's rows, by agent."""
    entries: int = 0
    is_complete: bool = True

    def add(self, key: FiguresKey, figures: DayFigures) -> None:
        assert self.now is not None
        self.own[key] = self.own[key].plus(figures)
        self._add_to_agent(self.now, key, figures)

    def take_back(self, key: FiguresKey, figures: DayFigures) -> None:
        self.add(key, NO_FIGURES.minus(figures))

    def move(self, key: FiguresKey, figures: DayFigures, *, is_live: bool) -> None:
        """Moves figures from takes to the live history, or back."""
        self.take_back(key._replace(is_live=not is_live), figures)
        self.add(key._replace(is_live=is_live), figures)

    def rename(self, rows: Iterable[tuple[FiguresKey, DayFigures]]) -> None:
        """Moves the stored figures to the current project and agent; subtracts them if the session was
        deleted."""
        for key, figures in rows:
            assert self.was is not None
            self._add_to_agent(self.was, key, NO_FIGURES.minus(figures))
            if self.now is not None and not self.removes:
                self._add_to_agent(self.now, key, figures)

    def _add_to_agent(self, counted: CountedSession, key: FiguresKey, figures: DayFigures) -> None:
        agent_key = counted.project_id, counted.agent, key._replace(model=key.model or counted.model)
        self.agents[agent_key] = self.agents[agent_key].plus(figures)


def count_part(project: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Counts about :data:`AT_ONCE` entries of some sessions of a project. Returns the sessions that have
    more."""
    batch = sorted(ids[:SESSIONS_AT_ONCE])
    sessions = Session.objects.filter(project=project, pk__in=batch).only(*_COLUMNS).in_bulk()
    counted = CountedSession.objects.in_bulk(batch)
    additions, left, entries = list[_FiguresChange](), list[UUID](), 0
    for id in batch:
        if entries >= AT_ONCE:
            left.append(id)
            continue
        addition = _addition(project, sessions.get(id), counted.get(id))
        if addition is not None:
            additions.append(addition)
            entries += addition.entries
            left += [] if addition.is_complete else [id]
    _store(additions)
    return [*left, *ids[SESSIONS_AT_ONCE:]]


def _addition(project: UUID, session: Session | None, was: CountedSession | None) -> _FiguresChange | None:
    """The changes of a session's figures, or None."""
    if session is None:
        if was is None or was.project_id != project:
            return None
        addition = _FiguresChange(was, None, removes=True)
        addition.rename(stored_rows(was.session_id))
        return addition
    is_known = was is not None and was.project_id == project and was.version == VERSION
    if was is not None and is_known and was.head <= session.head:
        addition = _FiguresChange(was, copy(was))
    else:
        fresh = CountedSession(session_id=session.pk, project_id=project, version=VERSION)
        fresh.head = session.fork_position
        addition = _FiguresChange(was, fresh, removes=was is not None)
    now = addition.now
    assert now is not None
    now.agent, now.model = session.agent[:MAX_NAME], session.model[:MAX_NAME]
    if was is not None and (addition.removes or (was.agent, was.model) != (now.agent, now.model)):
        addition.rename(stored_rows(session.pk))
    _count_beginning(addition, now, day_of(session.created_at))
    if now.head < session.head:
        _advance(addition, session, now)
    if not addition.removes and was is not None and _state(was) == _state(now):
        return None
    return addition


def _count_beginning(addition: _FiguresChange, now: CountedSession, day: date) -> None:
    if now.began == day:
        return
    if now.began is not None:
        addition.take_back(FiguresKey(now.began, "", "", has_cost=False), DayFigures(sessions=1))
    addition.add(FiguresKey(day, "", "", has_cost=False), DayFigures(sessions=1))
    now.began = day


def _advance(addition: _FiguresChange, session: Session, now: CountedSession) -> None:
    """Counts the next entries of a session."""
    counted, last = now.head, min(session.head, now.head + AT_ONCE)
    lineage = session.lineage(last)
    rewound = session.rewinds().filter(position__gt=counted, position__lte=last).exists()
    name, newest = str(session.pk), _load_newest(now.newest)
    if newest is not None:
        addition.take_back(newest.key, newest.figures)
    if rewound:
        _move(addition, session, lineage, newest.anchor if newest else 0)
    part = CountedPart(session, counted + 1, last)
    for entry in part.entries():
        is_live = not rewound or lineage.contains(name, entry.position)
        addition.add(entry.key._replace(is_live=is_live), entry.figures)
    for step in part.steps():
        is_live = lineage.contains(name, min(step.position, last))
        newest = step._replace(key=step.key._replace(is_live=is_live))
        addition.add(newest.key, newest.figures)
    now.head, now.newest = last, _dump_newest(newest)
    addition.entries, addition.is_complete = last - counted, last == session.head


def _move(addition: _FiguresChange, session: Session, lineage: Lineage, excluded: int) -> None:
    """Moves the figures of counted entries that rewinds have cut off or restored.

    Args:
        excluded: the anchor of a row that is not counted now.
    """
    assert addition.now is not None
    counted = addition.now.head
    before = session.lineage(counted)
    for spans, is_live in ((before.branch_off(lineage), False), (lineage.branch_off(before), True)):
        for first, last in _own_parts(spans, session, counted):
            part = CountedPart(session, first, last)
            for entry in part.entries():
                addition.move(entry.key, entry.figures, is_live=is_live)
            for step in part.steps():
                if first <= step.position <= last and step.anchor != excluded and step.figures:
                    addition.move(step.key, step.figures, is_live=is_live)
            addition.entries += last - first + 1


def _own_parts(spans: Lineage, session: Session, last: int) -> Iterator[tuple[int, int]]:
    for span in spans.spans:
        if span.session == str(session.pk):
            for first in range(span.first, min(span.last, last) + 1, AT_ONCE):
                yield first, min(first + AT_ONCE - 1, span.last, last)


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


def _store(additions: Sequence[_FiguresChange]) -> None:
    """Stores the changes of sessions, except those that another process has counted meanwhile."""
    if not additions:
        return
    ids = [counted.pk for one in additions if (counted := one.now or one.was)]
    with writing():
        new = [one.now for one in additions if one.was is None and one.now is not None]
        # The first process to insert the row counts the session; the others find the row changed.
        placeholders = [CountedSession(session_id=one.pk, project_id=one.project_id) for one in new]
        CountedSession.objects.bulk_create(placeholders, ignore_conflicts=True)
        locked = {
            row.pk: row
            for row in CountedSession.objects.select_for_update().filter(pk__in=ids).order_by("pk")
        }
        valid = [one for one in additions if _is_unchanged(one, locked)]
        removed_ids = [one.was.pk for one in valid if one.removes and one.was is not None]
        SessionDay.objects.filter(session_id__in=removed_ids).delete()
        own = {one.now.pk: one.own for one in valid if one.now is not None}
        agents: Agents = defaultdict(DayFigures)
        for one in valid:
            for agent_key, figures in one.agents.items():
                agents[agent_key] = agents[agent_key].plus(figures)
        add_to_days(own, agents)
        CountedSession.objects.filter(pk__in=[id for id in removed_ids if id not in own]).delete()
        CountedSession.objects.bulk_create(
            [one.now for one in valid if one.now is not None],
            update_conflicts=True,
            unique_fields=["session_id"],
            update_fields=_STATE,
        )


def _is_unchanged(addition: _FiguresChange, locked: dict[UUID, CountedSession]) -> bool:
    was, counted = addition.was, addition.was or addition.now
    assert counted is not None
    row = locked.get(counted.pk)
    if row is None:
        return False
    return row.version == 0 and row.began is None if was is None else _state(row) == _state(was)
