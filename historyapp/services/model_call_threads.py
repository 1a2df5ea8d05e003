"""The threads for a provider's model calls. All runs of a process share them, project by project."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

T = TypeVar("T")

MAX_SLEEP = 2.0
"""Seconds. A call that sleeps for longer gives its slot to another call meanwhile."""


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: Future[Any]


class CallThreads:
    """Gives each job a thread while fewer than ``limit`` jobs run.

    If jobs wait, the project with the fewest running jobs is next; of several, the one that has waited
    longest. Half as many jobs more may run: each must be the only one of its project. So long calls of one
    project delay no other project. Half as many more may sleep without a slot, see :func:`sleep`. At most
    twice ``limit`` jobs have a thread.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name, self._limit = name, limit
        self._spare = max(1, limit // 2)
        self._jobs: dict[UUID, deque[_Job]] = {}
        """The waiting jobs by project. The project that got a thread last is the last one."""
        self._running: Counter[UUID] = Counter()
        """The running jobs by project, without those that sleep without a slot."""
        self._sleeping = 0
        """The jobs that sleep without a slot."""
        self._lock = threading.Lock()

    def submit(self, project: UUID, work: Callable[[], T]) -> Future[T]:
        """Calls ``work`` in a thread, unless the future is cancelled before."""
        future = Future[T]()
        with self._lock:
            self._jobs.setdefault(project, deque()).append(_Job(work, future))
            self._start_jobs()
        return future

    def sleep(self, project: UUID, seconds: float) -> None:
        """Sleeps in a job's thread. Others may have its slot meanwhile."""
        with self._lock:
            keeps_slot = self._sleeping >= self._spare
            if not keeps_slot:
                self._sleeping += 1
                self._end(project)
        try:
            time.sleep(seconds)
        finally:
            if not keeps_slot:
                with self._lock:
                    self._sleeping -= 1
                    self._running[project] += 1  # at once, because the time limit of its call runs

    def _start_jobs(self) -> None:
        """Starts the jobs that may run. The caller holds the lock."""
        while self._jobs:
            project = min(self._jobs, key=self._running.__getitem__)
            running = self._running.total()
            if running >= self._limit + (0 if self._running[project] else self._spare):
                return
            jobs = self._jobs.pop(project)
            job = jobs.popleft()
            if jobs:
                self._jobs[project] = jobs
            if not job.future.set_running_or_notify_cancel():
                continue
            self._running[project] += 1
            thread = threading.Thread(target=self._work, args=(project, job), name=self._name)
            try:
                thread.start()
            except RuntimeError as error:  # the machine has no more threads
                self._running[project] -= 1
                job.future.set_exception(error)

    def _work(self, project: UUID, job: _Job) -> None:
        _current.sleep = lambda seconds: self.sleep(project, seconds)
        try:
            result = job.work()
        except BaseException as error:  # noqa: BLE001 the run's thread raises it
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        finally:
            with self._lock:
                self._end(project)

    def _end(self, project: UUID) -> None:
        self._running[project] -= 1
        if not self._running[project]:
            del self._running[project]
        self._start_jobs()


_current = threading.local()
"""``sleep``: how the job of the current thread sleeps."""


def sleep(seconds: float) -> None:
    """Sleeps. A job of :class:`CallThreads` that sleeps for long gives its slot to another job meanwhile,
    unless half of the limit do so already."""
    if seconds > MAX_SLEEP:
        getattr(_current, "sleep", time.sleep)(seconds)
    else:
        time.sleep(seconds)
