"""Chooses what a free thread works on next. Threads switch between projects, so that a project with much work
does not delay the others.

A thread works on a piece of work for a time slice, and then on the next one.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple
from uuid import UUID

from django.utils import timezone

from historyapp.models.database_clock import claim_now

BATCH_SIZE = 50
"""The number of pieces of work that one statement checks."""


class ActiveWork(NamedTuple):
    """A compression run, an evaluation or an index that is not complete."""

    id: UUID
    project: UUID
    created_at: datetime


class FairScheduler(ABC):
    """Divides the threads of this process among projects. Each process does so for itself."""

    shared_threads: int | None = None
    """With this many threads at work, only projects without a thread get one. None: no limit."""
    one_thread_for_project = False
    """Whether a project uses at most one thread of this process at a time, so that another project need not
    wait for one. For work that uses the processor all the time: two threads would take as long."""

    def __init__(self) -> None:
        self.projects: dict[UUID, UUID] = {}
        """The work that threads do, with its projects."""
        self.ending: frozenset[UUID] = frozenset()
        """The work that starts nothing more, and waits for what it has started. It needs little of a thread,
        so another thread may work instead."""
        self.without_thread: frozenset[UUID] = frozenset()
        """The projects whose work waits and that have no thread of this process, at the last look."""
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._last_slices: dict[UUID, int] = {}
        """The number of each project's last time slice."""
        self._put_back: dict[UUID, datetime] = {}
        """When work was put back behind the other work of its project."""
        self._held_until: dict[UUID, float] = {}
        """The monotonic time until which work must wait, because the wall clock can be set back."""

    @abstractmethod
    def active(self) -> list[ActiveWork]:
        """All work that has not ended, the oldest first."""

    def with_work(self, active: Sequence[ActiveWork], now: datetime) -> list[ActiveWork]:
        """Those on which one more thread can work now."""
        return list(active)

    def take(self) -> UUID | None:
        """Reserves the next work for a thread, or returns None. The thread calls :meth:`end` afterwards."""
        with self._lock:
            active = self.active()
            for noted in (self._put_back, self._held_until):
                for ended in noted.keys() - {item.id for item in active}:
                    del noted[ended]
            for item in self._in_order(active):
                self.projects[item.id] = item.project
                self._last_slices[item.project] = next(self._numbers)
                self.without_thread -= {item.project}
                return item.id
        return None

    def end(self, id: UUID, wait: timedelta | None = timedelta(0)) -> None:
        """Puts work behind the other work of its project.

        Args:
            wait: how long it must not be taken again. None: it keeps its place.
        """
        with self._lock:
            del self.projects[id]
            self.ending -= {id}
            if wait is not None:
                self._put_back[id] = timezone.now() + wait
                self._held_until[id] = time.monotonic() + wait.total_seconds()

    def mark_ending(self, id: UUID) -> None:
        """Counts this work as ending until :meth:`end`."""
        with self._lock:
            if id in self.projects:
                self.ending |= {id}

    def has_too_many(self, id: UUID) -> bool:
        """Whether the project of this work has several threads while another project waits for its first."""
        if not self.without_thread:
            return False
        with self._lock:
            threads = [project for work, project in self.projects.items() if work not in self.ending]
            return threads.count(self.projects[id]) > 1

    def candidates(self, leaving: UUID | None = None) -> Iterator[UUID]:
        """The work that a thread can take now, the next one first.

        Args:
            leaving: the work that the thread would give up for it.
        """
        return (item.id for item in self._in_order(self.active(), leaving))

    def _in_order(self, active: Sequence[ActiveWork], leaving: UUID | None = None) -> Iterator[ActiveWork]:
        """The project with the fewest threads comes first, then the one whose last slice is the longest ago.
        The work of a project is in the order of its requests.
        """
        now = timezone.now()
        waiting: dict[UUID, list[tuple[datetime, ActiveWork]]] = defaultdict(list)
        busy = set[UUID]()
        if self.one_thread_for_project:  # a copy, because other threads take and end work meanwhile
            busy = {project for work, project in list(self.projects.items()) if work != leaving}
        for item in active:
            if item.project in busy:
                continue
            queued_at = min(now, max(item.created_at, self._put_back.get(item.id, item.created_at)))
            is_held = self._held_until.get(item.id, 0) > time.monotonic()
            if item.id not in self.projects and not is_held:
                waiting[item.project].append((queued_at, item))
        threads = list(self.projects.values())
        if self.shared_threads is not None and len(threads) >= self.shared_threads:
            is_full = len(threads) - len(self.ending) >= self.shared_threads
            waiting = {} if is_full else {id: items for id, items in waiting.items() if id not in threads}
        for project in sorted(waiting, key=lambda id: (threads.count(id), self._last_slices.get(id, 0))):
            items = [item for _, item in sorted(waiting[project])]
            for start in range(0, len(items), BATCH_SIZE):
                yield from self.with_work(items[start : start + BATCH_SIZE], claim_now())
