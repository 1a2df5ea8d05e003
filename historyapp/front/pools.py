"""Threads that run the WSGI application, in pools, so that long requests never take those of short ones."""

import asyncio
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from historyapp.wire.problems import ServerUnavailable

IDLE_SECONDS = 60
"""After which a thread without work ends and its database connection is closed, unless the pool keeps it."""
MOST_WAITING = 2000
"""More than one address may have at once, so that it cannot fill a pool for others."""


class Client(NamedTuple):
    """Who sends a request: a key, or everybody at an address without one."""

    id: bytes
    project: bytes
    """What its threads count for together with those of the project's other keys; otherwise the same id."""


@dataclass(slots=True)
class PoolJob:
    client: Client
    run: Callable[[float], object]
    refuse: Callable[[ServerUnavailable], None]
    loop: asyncio.AbstractEventLoop
    claim: threading.Lock = field(default_factory=threading.Lock)
    """Taken once, by the thread that runs the job or by the timer that refuses it."""
    expiry: asyncio.TimerHandle | None = None
    """Only a job that has to wait for a thread has one."""
    begun: float = 0.0
    """When it began to wait."""


class Pool:
    """Starts a thread when a job finds none free. ``submit()`` runs in the event loop.

    Where jobs wait, each client gets a thread in turn, however many jobs others have. So that long jobs never
    stop those of others, a client gets another thread only while it has fewer than are free, and a project
    that has no thread gets one of the spare threads.

    Args:
        patience: seconds that a job waits for a thread.
        keeps_threads: even if they have nothing to do. Spare threads are never kept.
        spare: more threads than ``threads``, one for each project that has none.
        spacing: seconds between the beginnings of two jobs. Many that begin at once would compute at
            once, and Python runs one thread at a time.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        patience: float,
        keeps_threads: bool,
        spare: int = 0,
        spacing: float = 0,
    ) -> None:
        self.name = name
        self._most, self._spare = threads, spare
        self._patience = patience
        self._keeps_threads = keeps_threads
        self._ready: queue.SimpleQueue[PoolJob] = queue.SimpleQueue()
        """Jobs whose turn it is. Each has a thread that is idle or that starts."""
        self._jobs: dict[bytes, deque[PoolJob]] = {}
        """Jobs that wait, by client; the client whose turn is next comes first."""
        self._pending = 0
        """Jobs that wait or run."""
        self._threads = self._idle = 0
        self._busy = 0
        """Jobs that have a thread. Those that wait for their client do not count, here and below."""
        self._running: Counter[bytes] = Counter()
        """Busy threads by client."""
        self._of_project: Counter[bytes] = Counter()
        """Busy threads by project."""
        self._lock = threading.Lock()
        self._spacing = spacing
        self._begin = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits. May be read in any thread."""
        return self._pending > 0

    def submit(
        self, client: Client, run: Callable[[float], object], refuse: Callable[[ServerUnavailable], None]
    ) -> None:
        """Calls ``run`` in a thread; or ``refuse`` in the event loop, when no thread becomes free in time.

        ``run`` gets the seconds that it waited for a thread.
        """
        if self._pending >= self._most + MOST_WAITING:
            refuse(self._busy_error(f"{MOST_WAITING} requests wait for a thread for {self.name}."))
            return
        job = PoolJob(client, run, refuse, asyncio.get_running_loop())
        with self._lock:
            self._pending += 1
            self._jobs.setdefault(client.id, deque()).append(job)
            self._hand_out()
            if client.id in self._jobs:  # it waits
                job.begun = time.monotonic()
                job.expiry = job.loop.call_later(self._patience, self._expire, job)

    @contextmanager
    def aside(self, client: Client) -> Iterator[None]:
        """In the thread of a job, which waits for its client meanwhile: another job may run instead."""
        with self._lock:
            self._count(client, -1)
            self._hand_out()
        try:
            yield
        finally:
            with self._lock:
                self._count(client, 1)

    def _hand_out(self) -> None:
        """Gives threads to the jobs that may have one now. The caller holds the lock."""
        while self._jobs:
            id = next((id for id, jobs in self._jobs.items() if self._may_run(jobs[0].client)), None)
            if id is None:
                return
            jobs = self._jobs.pop(id)
            job = jobs.popleft()
            if jobs:
                self._jobs[id] = jobs  # behind the others
            self._count(job.client, 1)
            self._ready.put(job)
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, name=self.name, daemon=True).start()

    def _may_run(self, client: Client) -> bool:
        free = self._most - self._busy
        if self._running[client.id] < free:
            return True
        return free + self._spare > 0 and not self._of_project[client.project]

    def _count(self, client: Client, threads: int) -> None:
        self._busy += threads
        for counter, key in ((self._running, client.id), (self._of_project, client.project)):
            counter[key] += threads
            if not counter[key]:
                del counter[key]

    def _work(self) -> None:
        while (job := self._take()) is not None:
            if self._spacing:
                with self._begin:
                    time.sleep(self._spacing)
            if job.claim.acquire(blocking=False):
                job.run(time.monotonic() - job.begun if job.begun else 0.0)
            if job.expiry is not None:
                with suppress(RuntimeError):  # the server has stopped
                    job.loop.call_soon_threadsafe(job.expiry.cancel)
            with self._lock:
                self._pending -= 1
                self._idle += 1
                self._count(job.client, -1)
                self._hand_out()

    def _take(self) -> PoolJob | None:
        """The next job for this thread, or None when it should end."""
        while True:
            try:
                return self._ready.get(timeout=None if self._keeps_all() else IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # Where no thread counts as idle, a job is on its way to this one.
                    if self._idle and not self._keeps_all():
                        self._idle -= 1
                        self._threads -= 1
                        return None

    def _keeps_all(self) -> bool:
        return self._keeps_threads and self._threads <= self._most

    def _expire(self, job: PoolJob) -> None:
        if job.claim.acquire(blocking=False):
            waited = f"{self._patience:g} seconds (PLAYHEAD_QUEUE_SECONDS)"
            job.refuse(self._busy_error(f"All threads for {self.name} were busy for {waited}."))

    def _busy_error(self, reason: str) -> ServerUnavailable:
        return ServerUnavailable(f"{reason} Try again in a moment.", retry_after=2)
