"""Computes the figures of a session's own entries from their running totals and the rows of steps.

It reads no bodies. The figures of an entry depend only on the entries before it, so any part of a session can
be counted alone. A rewind moves the figures of the cut-off entries from live history to takes.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from historyapp.core.day_figures import DayFigures, EntryFigures, FiguresKey, day_of, entry_figures
from historyapp.core.projection import Totals
from historyapp.models import Entry, Episode, Session

BATCH_SIZE = 2000
"""The maximum number of entries of a :class:`CountedPart`."""
_RESULT_KINDS = ("tool_results", "review")
_MILLISECOND = timedelta(milliseconds=1)
_MAX_STEP = timedelta(days=366)
"""The maximum time of a step that is added up: agents can record any times."""


class _StepRow(NamedTuple):
    anchor: int
    first_position: int
    last_position: int
    tool: str
    started_at: datetime
    finished_at: datetime | None
    likely_failure: str


class CountedEntry(NamedTuple):
    """The figures of an entry."""

    position: int
    key: FiguresKey
    figures: DayFigures


class CountedStep(NamedTuple):
    """The figures of a step that has results. They may change while the step is the newest one."""

    anchor: int
    position: int
    """The position of the results. The figures are live if this position is."""
    key: FiguresKey
    figures: DayFigures


class CountedPart:
    """A session's own entries between two positions (both included), at most :data:`BATCH_SIZE`."""

    def __init__(self, session: Session, first: int, last: int) -> None:
        self._session, self._first, self._last = session, first, last
        rows = Episode.objects.filter(session=session).values_list(*_StepRow._fields)
        previous = rows.filter(anchor__lt=first).order_by("-anchor")[:1]
        within = rows.filter(anchor__range=(first, last)).order_by("anchor")
        self._rows = [_StepRow(*row) for row in [*previous, *within]]
        self._anchors = [row.anchor for row in self._rows]
        self._keys: dict[int, FiguresKey] = {}

    def entries(self) -> Iterator[CountedEntry]:
        """The figures of each entry, in order."""
        before = self._totals_at(self._first - 1)
        own = Entry.objects.filter(session=self._session, position__range=(self._first, self._last))
        rows = own.order_by("position").values_list("position", "kind", "created_at", "totals")
        for position, kind, created_at, totals in rows:
            after = Totals.load(totals)
            if kind != "rewind":
                added = entry_figures(before, after)
                yield CountedEntry(position, self._key_at(position, kind, created_at, added), added.figures)
            before = after

    def steps(self) -> Iterator[CountedStep]:
        """The figures of the step before this part, and of those that begin in it, in order."""
        for row in self._rows:
            figures = self._step_figures(row)
            key = self._key_of(row) if figures else FiguresKey(day_of(row.started_at), "", "", False)
            yield CountedStep(row.anchor, row.last_position, key, figures)

    def _key_at(self, position: int, kind: str, created_at: datetime, added: EntryFigures) -> FiguresKey:
        index = bisect_right(self._anchors, position) - 1
        row = self._rows[index] if index >= 0 else None
        has_cost = added.figures.cost > 0
        if row is not None and row.anchor == position:
            self._keys[position] = FiguresKey(day_of(created_at), added.model, row.tool, has_cost)
            return self._keys[position]
        if row is None or kind not in _RESULT_KINDS:
            return FiguresKey(day_of(created_at), added.model, "", has_cost)
        key = self._key_of(row)
        return key._replace(model=added.model, has_cost=has_cost) if added.figures.model_calls else key

    def _key_of(self, row: _StepRow) -> FiguresKey:
        """The key of a step. Its output may be before this part, or in the session that this one was forked
        from."""
        if row.anchor not in self._keys:
            key, output = FiguresKey(day_of(row.started_at), "", row.tool, False), row.first_position
            if output > self._session.fork_position:
                added = entry_figures(self._totals_at(output - 1), self._totals_at(output))
                key = key._replace(model=added.model, has_cost=added.figures.cost > 0)
            self._keys[row.anchor] = key
        return self._keys[row.anchor]

    def _step_figures(self, row: _StepRow) -> DayFigures:
        """The figures of a step, zero if its results are not in this session."""
        if row.last_position <= row.anchor or not self._is_answered_here(row):
            return DayFigures()
        duration = row.finished_at - row.started_at if row.finished_at else timedelta(0)
        milliseconds = max(0, min(duration, _MAX_STEP) // _MILLISECOND)
        return DayFigures(likely_failures=int(bool(row.likely_failure)), milliseconds=milliseconds)

    def _is_answered_here(self, row: _StepRow) -> bool:
        """Whether the step's results come after its row. A rewind or a fork may have copied the row."""
        if row.first_position == row.anchor:
            return True
        following = (row.anchor + 1, row.last_position)
        results = Entry.objects.filter(session=self._session, position__range=following, kind="tool_results")
        return row.finished_at is not None and results.filter(created_at=row.finished_at).exists()

    def _totals_at(self, position: int) -> Totals:
        if position <= self._session.fork_position:
            newest = Entry.objects.newest(self._session.shared_lineage)
            return Totals.load(newest.totals) if newest else Totals()
        rows = Entry.objects.filter(session=self._session, position=position)
        return Totals.load(rows.values_list("totals", flat=True).first() or {})
