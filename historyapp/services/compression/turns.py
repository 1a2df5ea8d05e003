"""Chooses the run that a free thread works on next. Projects take turns, so that the number of runs of one
project does not delay the others."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from historyapp.models import CompressionItem, CompressionRun

BATCH_SIZE = 50
"""The number of runs whose items one statement checks."""


class _ActiveRun(NamedTuple):
    id: UUID
    project: UUID
    created_at: datetime


class Turns:
    """The turns that the threads of this process take. Each process shares its own threads fairly."""

    def __init__(self) -> None:
        self.projects: dict[UUID, UUID] = {}
        """The runs that a thread works on, with their projects."""
        self.without_thread: frozenset[UUID] = frozenset()
        """The projects with a run that waits and no thread of this process, at the last look."""
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._last_turns: dict[UUID, int] = {}
        """The number of each project's last turn."""
        self._put_back: dict[UUID, datetime] = {}
        """When each run was put back behind the other runs of its project; in the future if it must wait."""

    def take(self) -> UUID | None:
        """Reserves the next run for a thread, or returns None. The thread calls :meth:`end` afterwards."""
        with self._lock:
            active = _active_runs()
            self._put_back = {run.id: self._put_back[run.id] for run in active if run.id in self._put_back}
            for run in self._in_order(active):
                self.projects[run.id] = run.project
                self._last_turns[run.project] = next(self._numbers)
                self.without_thread -= {run.project}
                return run.id
        return None

    def end(self, run: UUID, wait: timedelta | None = timedelta(0)) -> None:
        """Puts a run behind the other runs of its project.

        Args:
            wait: how long it must not be taken again. None: it keeps its place.
        """
        with self._lock:
            del self.projects[run]
            if wait is not None:
                self._put_back[run] = timezone.now() + wait

    def has_too_many(self, run: UUID) -> bool:
        """Whether the run's project has several threads while another project waits for its first."""
        return bool(self.without_thread) and list(self.projects.values()).count(self.projects[run]) > 1

    def candidates(self) -> Iterator[UUID]:
        """The runs that a thread can take now, the next one first."""
        return (run.id for run in self._in_order(_active_runs()))

    def _in_order(self, active: Sequence[_ActiveRun]) -> Iterator[_ActiveRun]:
        """The project with the fewest threads comes first, then the one whose last turn is the longest ago.
        The runs of a project are in the order of their requests.
        """
        now = timezone.now()
        waiting: dict[UUID, list[tuple[datetime, _ActiveRun]]] = defaultdict(list)
        for run in active:
            queued_at = max(run.created_at, self._put_back.get(run.id, run.created_at))
            is_held = run.id in self._put_back and queued_at > now
            if run.id not in self.projects and not is_held:
                waiting[run.project].append((queued_at, run))
        threads = list(self.projects.values())
        for project in sorted(waiting, key=lambda id: (threads.count(id), self._last_turns.get(id, 0))):
            runs = [run for _, run in sorted(waiting[project])]
            for start in range(0, len(runs), BATCH_SIZE):
                yield from _with_work(runs[start : start + BATCH_SIZE], now)


def _active_runs() -> list[_ActiveRun]:
    active = CompressionRun.objects.active().order_by("id")
    return [_ActiveRun(*row) for row in active.values_list("pk", "project_id", "created_at")]


def _with_work(runs: Sequence[_ActiveRun], now: datetime) -> list[_ActiveRun]:
    """Those runs that no worker has begun, or that have items for one more worker."""
    items = CompressionItem.objects.filter(run=OuterRef("pk"))
    has_work = ~Exists(items.in_progress(now)) | Exists(items.claimable(now).order_by())
    found = CompressionRun.objects.filter(Q(has_work), pk__in=[run.id for run in runs])
    ids = set(found.values_list("pk", flat=True))
    return [run for run in runs if run.id in ids]
