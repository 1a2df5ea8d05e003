"""Threads that run the WSGI application, in pools, so that long requests never take those of short ones."""

import asyncio
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from historyapp.wire.problems import ServerUnavailable

IDLE_SECONDS = 60
"""After which a thread without work ends and its database connection is closed, unless the pool keeps it."""
MOST_WAITING = 2000
"""More than one address may have at once, so that it cannot fill a pool for others."""


@dataclass(slots=True)
class PoolJob:
    client: bytes
    run: Callable[[float], object]
    refuse: Callable[[ServerUnavailable], None]
    claim: threading.Lock = field(default_factory=threading.Lock)
    """Taken once, by the thread that runs the job or by the timer that refuses it."""
    expiry: asyncio.TimerHandle | None = None
    """Only a job that has to wait for a thread has one."""
    begun: float = 0.0
    """When it began to wait."""


class Pool:
    """Starts a thread when a job finds none free. Public methods run in the event loop.

    Where jobs wait, each client gets a thread in turn, however many jobs others have. One client never has
    all threads, unless there is only one.

    Args:
        patience: seconds that a job waits for a thread.
        keeps_threads: even if they have nothing to do.
        spacing: seconds between the beginnings of two jobs. Many that begin at once would compute at
            once, and Python runs one thread at a time.
    """

    def __init__(
        self, name: str, threads: int, *, patience: float, keeps_threads: bool, spacing: float = 0
    ) -> None:
        self.name = name
        self._most = threads
        self._patience = patience
        self._idle_seconds = None if keeps_threads else IDLE_SECONDS
        self._ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Wakes a thread for each job."""
        self._jobs: dict[bytes, deque[PoolJob]] = {}
        """Jobs that wait, by client; the client whose turn is next comes first."""
        self._threads = 0
        self._aside = 0
        """Threads whose jobs wait for their clients. Others run instead of them."""
        self._pending = 0
        """Jobs that wait or run."""
        self._running: Counter[bytes] = Counter()
        """Jobs that have a thread, by client. Those that wait for their client do not count."""
        self._most_of_one = max(1, threads - 1)
        """The threads that one client may have, so that its long jobs never stop those of others."""
        self._passed_over = 0
        """Waiting jobs that no thread is woken for: their clients have as many threads as they may."""
        self._lock = threading.Lock()
        self._spacing = spacing
        self._begin = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits. May be read in any thread."""
        return self._pending > 0

    def submit(
        self, client: bytes, run: Callable[[float], object], refuse: Callable[[ServerUnavailable], None]
    ) -> None:
        """Calls ``run`` in a thread; or ``refuse`` in the event loop, when no thread becomes free in time.

        ``run`` gets the seconds that it waited for a thread.
        """
        loop = asyncio.get_running_loop()
        if self._pending >= self._most + MOST_WAITING:
            refuse(self._busy(f"{MOST_WAITING} requests wait for a thread for {self.name}."))
            return
        job = PoolJob(client, run, refuse)
        if self._pending >= self._most_of_one:  # it may have to wait
            job.begun = time.monotonic()
            job.expiry = loop.call_later(self._patience, self._expire, job)
        with self._lock:
            self._pending += 1
            self._jobs.setdefault(client, deque()).append(job)
        self._start(loop)
        self._ready.put(None)

    @contextmanager
    def aside(self, client: bytes, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """In the thread of a job, which waits for its client meanwhile: another job may run instead."""
        with self._lock:
            self._aside += 1
        self._leave(client)
        loop.call_soon_threadsafe(self._start, loop)
        try:
            yield
        finally:
            with self._lock:
                self._aside -= 1
                self._running[client] += 1

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts a thread, if there is a job for it and there may be one more."""
        if self._pending <= self._threads or self._threads - self._aside >= self._most:
            return
        self._threads += 1
        threading.Thread(target=self._work, args=(loop,), name=self.name, daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                self._ready.get(timeout=self._idle_seconds)
            except queue.Empty:
                with suppress(RuntimeError):  # the server has stopped
                    loop.call_soon_threadsafe(self._ended, loop)
                return
            if self._spacing:
                with self._begin:
                    time.sleep(self._spacing)
            job = self._next()
            if job is None:
                continue
            if job.claim.acquire(blocking=False):
                job.run(time.monotonic() - job.begun if job.begun else 0.0)
            with self._lock:
                self._pending -= 1
            self._leave(job.client)
            if job.expiry is not None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(job.expiry.cancel)
            if self._threads - self._aside > self._most:  # another one began while a job waited
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._ended, loop)
                return

    def _next(self) -> PoolJob | None:
        """The job whose turn it is; None where each waiting client has as many threads as it may."""
        with self._lock:
            may_run = (one for one in self._jobs if self._running[one] < self._most_of_one)
            client = next(may_run, None)
            if client is None:
                self._passed_over += 1
                return None
            jobs = self._jobs.pop(client)
            job = jobs.popleft()
            if jobs:
                self._jobs[client] = jobs  # behind the others
            self._running[client] += 1
            return job

    def _leave(self, client: bytes) -> None:
        """A job of this client has no thread any more. One that was passed over may have a turn."""
        with self._lock:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]
            if self._passed_over:
                self._passed_over -= 1
                self._ready.put(None)

    def _ended(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads -= 1
        self._start(loop)  # a job may have come while the thread ended

    def _expire(self, job: PoolJob) -> None:
        if job.claim.acquire(blocking=False):
            waited = f"{self._patience:g} seconds (PLAYHEAD_QUEUE_SECONDS)"
            job.refuse(self._busy(f"All threads for {self.name} were busy for {waited}."))

    def _busy(self, reason: str) -> ServerUnavailable:
        return ServerUnavailable(f"{reason} Try again in a moment.", retry_after=2)
