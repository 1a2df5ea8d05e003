"""Computes the figures of a run, starting from the newest checkpoint, within the time limit of a request.

An append does not update them. The computation stores a checkpoint every :data:`INTERVAL` steps, so a reader
only counts the steps since the newest one. Workers count in advance for sessions that were imported or have
grown recently. For other sessions, each request counts a part and stores a checkpoint, from which the next
request continues.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

from django.db import DatabaseError
from django.utils import timezone

from historyapp.core.entries import Entry as CoreEntry
from historyapp.core.entries import ModelOutput
from historyapp.core.episodes import entry_groups
from historyapp.core.exporters.long_steps import shortened
from historyapp.core.lineage import Lineage
from historyapp.core.overview.figures import VERSION, RunFigures, dump_figures, load_figures
from historyapp.core.overview.times import EXECUTION_TIME, Cut
from historyapp.core.recorded_diffs import RECORDED_DIFFS
from historyapp.models import FiguresCheckpoint, ImportSource, Project, Session
from historyapp.models.entries import spans_between
from historyapp.models.history import History
from historyapp.models.own_rows import OwnRow, live_rows
from historyapp.models.sql import WINDOW_KEYS
from historyapp.services.transactions import writing
from historyapp.wire.problems import ServerUnavailable

INTERVAL = 250
"""The number of steps between two checkpoints."""
SECONDS = 0.18
"""The maximum number of seconds of processor time of one request, checked after each step."""
PART_SECONDS = 0.5
"""The maximum number of seconds of processor time until a worker checks whether it must stop."""
COUNT_AHEAD_FROM = 1000
"""A worker counts in advance if at least this many steps have no checkpoint. A request can count fewer steps
itself."""
EXAMINE_SECONDS = 0.2
"""The maximum number of seconds of processor time to search for sessions to count."""
RECENT, MAX_RECENT = timedelta(minutes=10), 50
"""Workers consider only sessions that were created or imported, or got an entry, within this time. They
consider at most this many of each."""
MAX_IMPORTED = 1_000
"""The number of newest imported sessions among which they search for long ones."""
_METADATA = (*WINDOW_KEYS, "duration_seconds", EXECUTION_TIME, RECORDED_DIFFS)
"""The metadata that figures read: that of windows, and how long a tool took."""
KINDS = ("model_output", "tool_results", "model_input", "system_instruction", "memory_notebook", "debug_log")


@dataclass(frozen=True, slots=True)
class CountedRun:
    """Figures of the first steps of a history."""

    figures: RunFigures
    steps: int
    """The number of steps of the whole history."""

    @property
    def is_complete(self) -> bool:
        return self.figures.steps == self.steps


@dataclass(slots=True)
class _CountState:
    """The state of one computation."""

    figures: RunFigures
    lineage: Lineage
    stored_at: int
    """The number of steps at the newest checkpoint."""
    checkpoints: list[FiguresCheckpoint] = field(default_factory=list)

    def add_checkpoint(self, output: CoreEntry) -> None:
        """Adds a checkpoint with the figures of all entries before an output."""
        session = UUID(self.lineage.session_at(output.position))
        state, steps = dump_figures(self.figures), self.figures.steps
        row = FiguresCheckpoint(
            session_id=session, position=output.position, steps=steps, version=VERSION, state=state
        )
        self.checkpoints.append(row)
        self.stored_at = steps


def count_run(history: History, seconds: float | None = None) -> CountedRun:
    """The figures of a history, or of its first steps if the time limit is reached before the end.

    Args:
        seconds: the limit for processor time; None: no limit.
    """
    counted = _count(history, seconds)
    # Checkpoints only save time, so a full disk must not break the page.
    with suppress(DatabaseError, ServerUnavailable):
        store_checkpoints(counted.checkpoints)
    return CountedRun(counted.figures, history.steps)


def sessions_to_count() -> list[UUID]:
    """Sessions that were imported or have grown recently and have many steps after their newest checkpoint.

    Reads no entries, and stops after :data:`EXAMINE_SECONDS`. The order is random, so that later calls
    examine the other sessions. Session ids begin with the time at which the session was created, unless a
    client or a transcript chose another one: most such ids begin with a time in the future.
    """
    now = timezone.now()
    since = now - RECENT
    first, last = (UUID(int=int(at.timestamp() * 1000) << 80) for at in (since, now + RECENT))
    long = Session.objects.filter(steps__gte=COUNT_AHEAD_FROM).order_by()
    # With the projects, an index finds the sessions. One query for both conditions would read all sessions.
    grown = long.filter(project__in=Project.objects.all(), last_entry_at__gte=since)
    # Entries of imported sessions are usually older, and their ids are random.
    newest = ImportSource.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    sources = ImportSource.objects.filter(pk__gt=newest - MAX_IMPORTED, imported_at__gte=since)
    imported = long.filter(pk__in=sources.values_list("session_id", flat=True))
    created = long.filter(pk__gte=first, pk__lt=last)
    found = {row.pk: row for rows in (created, imported, grown) for row in rows[:MAX_RECENT]}
    recent = list(found.values())
    random.shuffle(recent)
    behind: list[UUID] = []
    end = time.thread_time() + EXAMINE_SECONDS
    for session in recent:
        history = History(session)
        checkpoint = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
        if history.steps - (checkpoint.steps if checkpoint else 0) >= COUNT_AHEAD_FROM:
            behind.append(session.pk)
        if time.thread_time() > end:
            break
    return behind


def count_ahead(session_id: UUID, should_stop: Callable[[], bool]) -> None:
    """Counts a session's figures and stores them, in parts. Does nothing if the session was deleted
    meanwhile.

    Raises:
        DatabaseError: when a part cannot be stored. Otherwise the same part would be counted forever.
    """
    while not should_stop():
        session = Session.objects.filter(pk=session_id).first()
        if session is None:
            break
        history = History(session)
        counted = _count(history, PART_SECONDS)
        store_checkpoints(counted.checkpoints)
        if CountedRun(counted.figures, history.steps).is_complete:
            break


def store_checkpoints(checkpoints: Sequence[FiguresCheckpoint]) -> None:
    """Stores checkpoints. They replace checkpoints of an earlier version at the same positions."""
    if not checkpoints:
        return
    with writing():
        FiguresCheckpoint.objects.bulk_create(
            checkpoints,
            update_conflicts=True,
            unique_fields=["session", "position"],
            update_fields=["steps", "version", "state"],
        )


def _count(history: History, seconds: float | None) -> _CountState:
    checkpoint = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    figures = load_figures(checkpoint.state) if checkpoint else RunFigures()
    state = _CountState(figures, history.lineage, figures.steps)
    end = None if seconds is None else time.thread_time() + seconds
    cuts: dict[int, Cut] = {}
    for group in entry_groups(_entries(history.lineage, checkpoint, cuts)):
        figures.note_cut(group[0].position, cuts)
        is_output = isinstance(group[0].body, ModelOutput)
        done = figures.steps - state.stored_at
        is_late = end is not None and done > 0 and time.thread_time() > end
        if is_output and (is_late or done >= INTERVAL):
            state.add_checkpoint(group[0])
        if is_output and is_late:
            break
        figures.add_group(group, cuts)
    return state


def _entries(
    lineage: Lineage, checkpoint: FiguresCheckpoint | None, cuts: dict[int, Cut]
) -> Iterator[CoreEntry]:
    """The live entries from a checkpoint on. They are read one at a time, because any number may be large.

    Adds to ``cuts`` the first one after each fork and rewind, but not the checkpoint's own.
    """
    after = checkpoint.position - 1 if checkpoint else 0
    starts: Iterator[tuple[int, Cut]] = (
        (span.first, "rewind" if span.session == before.session else "fork")
        for before, span in pairwise(spans_between(lineage, after))
    )
    rows = _noted(live_rows(lineage, after, _METADATA), starts, cuts)
    return shortened(((row.core(), row.size) for row in rows), logs=True)


def _noted(
    rows: Iterable[OwnRow], starts: Iterator[tuple[int, Cut]], cuts: dict[int, Cut]
) -> Iterator[OwnRow]:
    """The rows of :data:`KINDS`. Adds to ``cuts`` the first one from each start on."""
    start = next(starts, None)
    for row in rows:
        if row.kind not in KINDS:
            continue
        while start is not None and start[0] <= row.position:
            cuts.setdefault(row.position, start[1])
            start = next(starts, None)
        yield row


def recount(session: Session) -> list[str]:
    """Computes a session's checkpoints again, at the same outputs. Returns the differences.

    A fork reads its parent's checkpoints, so recount parents first.
    """
    stored = list(FiguresCheckpoint.objects.filter(session=session).order_by("position"))
    FiguresCheckpoint.objects.filter(session=session).delete()
    differences: list[str] = []
    for row in stored:
        if row.version != VERSION:
            continue
        computed = _checkpoint_at(session, row.position)
        if computed is None or (computed.steps, computed.state) != (row.steps, row.state):
            differences.append(f"figures before position {row.position} differed")
        if computed is not None:
            store_checkpoints([computed])
    return differences


def _checkpoint_at(session: Session, position: int) -> FiguresCheckpoint | None:
    """The checkpoint before a session's own output, or None if there is no output at the position."""
    if not session.fork_position < position <= session.head:
        return None
    history = History(session, position)
    checkpoint = FiguresCheckpoint.objects.newest_in(history.lineage, history.steps)
    figures = load_figures(checkpoint.state) if checkpoint else RunFigures()
    state = _CountState(figures, history.lineage, figures.steps)
    cuts: dict[int, Cut] = {}
    for group in entry_groups(_entries(history.lineage, checkpoint, cuts)):
        figures.note_cut(group[0].position, cuts)
        if group[0].position == position and isinstance(group[0].body, ModelOutput):
            state.add_checkpoint(group[0])
            return state.checkpoints[-1]
        figures.add_group(group, cuts)
    return None
