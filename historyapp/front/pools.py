"""Pools of threads that run the WSGI application. Long requests never take the threads of short ones."""

import asyncio
import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from historyapp.core.call_stack import with_room_for_calls
from historyapp.services.connections import release_connection
from historyapp.services.faults import foreign_lock
from historyapp.services.token_counts import lending_thread
from historyapp.wire.busy import busy_error
from historyapp.wire.problems import ServerUnavailable

log = logging.getLogger(__name__)

IDLE_SECONDS = 60
"""An idle thread ends after this time and closes its database connection, which holds up to 10 MB."""
MAX_WAITING = 2000
"""The longest queue of a pool. When it is full, a job of the owner with the most waiting jobs is refused."""
MAX_RETURNING = 16
"""The maximum number of jobs of one owner that have begun and wait for their turn, each in a thread."""
NO_THREAD = "All threads for {pool} of this {{whose}} are busy. Wait until one is free, then retry."


class Client(NamedTuple):
    """Who holds the thread of a request: a credential that is known to be valid, else an IP address."""

    id: bytes
    owner: bytes
    """The project of the key or share link, or the person of the browser session. All clients of an owner
    share its turns. For an address, equal to ``id``."""

    @property
    def is_stranger(self) -> bool:
        """Whether it is an address, because the credential is missing or has not been found."""
        return self.id == self.owner


@dataclass(slots=True)
class PoolJob:
    client: Client
    run: Callable[[float], object]
    refuse: Callable[[ServerUnavailable], None]
    loop: asyncio.AbstractEventLoop
    claim: threading.Lock = field(default_factory=threading.Lock)
    """Acquired once: by the thread that runs the job or by the timer that refuses it."""
    expiry: asyncio.TimerHandle | None = None
    """The timer that refuses a waiting job."""
    waiting_since: float = 0.0
    """The monotonic time at which the job started to wait, or 0."""


@dataclass(slots=True, eq=False)
class ReturningJob:
    """A job that has begun and waits for its turn in its thread: its client reads again, or has changed."""

    client: Client
    may_run: threading.Event = field(default_factory=threading.Event)


class Hooks(NamedTuple):
    """Functions that the threads of a pool call. Their errors are logged."""

    idle: Callable[[], None] | None = None
    """Called by the kept thread after it has been idle for a minute."""
    end: Callable[[], None] | None = None
    """Called by a thread that ends."""
    after_job: Callable[[], None] | None = None
    """Called by a thread after each job."""


NO_HOOKS = Hooks()


class Pool:
    """Starts a thread if a job finds none free. ``submit()`` must be called in the event loop.

    If jobs wait, owners get threads in turn, and so do the clients of one owner, whatever the number of
    their jobs. Two rules keep long jobs from blocking other clients: a client gets another thread only while
    it uses fewer threads than are free, and an owner who has no thread gets a spare thread.

    Args:
        max_wait: the longest wait for a thread, in seconds.
        keeps_thread: whether one idle thread is kept, so that a request after a pause need not connect to
            the database.
        hooks: functions that its threads call.
        spare: the number of threads beyond ``threads``. An owner gets one of them only without a thread.
        spacing: seconds between the starts of two jobs. Python runs one thread at a time, so many jobs that
            start together would slow each other and the event loop, which waits for each thread to start.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        max_wait: float,
        keeps_thread: bool,
        hooks: Hooks = NO_HOOKS,
        spare: int = 0,
        spacing: float = 0,
    ) -> None:
        self.name = name
        self._max_threads, self._spare = threads, spare
        self._max_wait = max_wait
        self._keeps_thread = keeps_thread
        self._hooks = hooks
        self._jobs: dict[bytes, dict[bytes, deque[PoolJob]]] = {}
        """Waiting jobs by owner and client. The owner and the client whose turn is next come first."""
        self._returning: list[ReturningJob] = []
        """Jobs that have waited for their client, the oldest first."""
        self._pending = 0
        """Waiting and running jobs."""
        self._lending = 0
        """Of these, the jobs that lend their thread."""
        self._threads = 0
        self._idle: list[queue.SimpleQueue[PoolJob]] = []
        """The queue of each idle thread. The last queue is that of the thread that worked last, which gets
        the next job: SQLite drops the pages that a thread has cached after another thread has written."""
        self._busy = 0
        """Jobs that have a thread. Here and below, jobs that wait for their client are not counted."""
        self._busy_by_client: Counter[bytes] = Counter()
        """Busy threads by client."""
        self._busy_by_owner: Counter[bytes] = Counter()
        """Busy threads by owner."""
        self._lock = threading.Lock()
        self._local = threading.local()
        """``job``: the job of the current thread."""
        self._spacing = spacing
        self._next_start = 0.0
        """The monotonic time before which no job starts, if the pool has a spacing."""
        self._has_timer = False
        """Whether a timer of the event loop will call ``_dispatch_at_time()``."""

    @property
    def is_busy(self) -> bool:
        """Whether a job runs or waits for a thread. Any thread may read it.

        Jobs that lend their thread do not count: exports pause while this is true.
        """
        return self._pending > self._lending

    def submit(
        self, client: Client, run: Callable[[float], object], refuse: Callable[[ServerUnavailable], None]
    ) -> None:
        """Calls ``run`` in a thread, or ``refuse`` in the event loop if no thread becomes free in time.

        The argument of ``run`` is the seconds that the job waited for a thread.
        """
        if self._pending >= self._max_threads + MAX_WAITING and not self._refuse_one(client.owner):
            refuse(self._full_error())
            return
        job = PoolJob(client, run, refuse, asyncio.get_running_loop())
        with self._lock:
            self._pending += 1
            self._jobs.setdefault(client.owner, {}).setdefault(client.id, deque()).append(job)
            self._dispatch()
            if client.id in self._jobs.get(client.owner, {}):  # the job waits
                job.waiting_since = time.monotonic()
                job.expiry = job.loop.call_later(self._max_wait, self._expire, job)

    def _refuse_one(self, owner: bytes) -> bool:
        """Refuses the newest waiting job of the owner with the most of them.

        Returns False if this owner has as many.
        """
        with self._lock:
            counts = {key: sum(map(len, by_client.values())) for key, by_client in self._jobs.items()}
            greatest = max(counts, key=counts.__getitem__, default=owner)
            if counts.get(owner, 0) >= counts.get(greatest, 0):
                return False
            by_client = self._jobs[greatest]
            client = max(by_client, key=lambda id: len(by_client[id]))
            job = by_client[client].pop()
            if not by_client[client]:
                del by_client[client]
            if not by_client:
                del self._jobs[greatest]
            self._pending -= 1
        if job.expiry is not None:
            job.expiry.cancel()
        if job.claim.acquire(blocking=False):
            job.refuse(self._full_error())
        return True

    @contextmanager
    def lending_thread(self) -> Iterator[None]:
        """Lets another job run while this job waits, for example for its client. Called in the job's thread.

        Then the job waits until it may have a thread again. Otherwise many jobs that can go on at the same
        time would take all threads together. The caller must hold no lock.
        """
        job: PoolJob = self._local.job
        with self._lock:
            self._lending += 1
            self._count(job.client, -1)
            self._dispatch()
        try:
            yield
        finally:
            returning = ReturningJob(job.client)
            with self._lock:
                self._lending -= 1
                self._returning.append(returning)
                self._dispatch()
            returning.may_run.wait()

    def reassign(self, client: Client, *, waits: bool = True) -> None:
        """Counts this job for another client from now on, and waits until this client may have a thread.

        Otherwise an owner could have all threads: each job of a browser session that is not known yet gets
        one as a stranger's. Called in the job's thread, which must hold no lock.

        Args:
            waits: False if the work has begun elsewhere and continues in any case.

        Raises:
            TooManyRequests: when the owner's own jobs use the threads that it may have for too long.
            ServerUnavailable: when those of others do.
        """
        job: PoolJob = self._local.job
        if client == job.client:
            return
        returning = ReturningJob(client)
        with self._lock:
            self._count(job.client, -1)
            job.client = client
            if waits:
                self._returning.append(returning)
            else:
                self._count(client, 1)
            self._dispatch()
            if not waits or returning.may_run.is_set():
                return
            is_full = sum(other.client.owner == client.owner for other in self._returning) > MAX_RETURNING
            self._lending += 1
        if not is_full:
            self._notify(release_connection)
            returning.may_run.wait(self._max_wait)
        with self._lock:
            self._lending -= 1
            if returning not in self._returning:
                return
            self._returning.remove(returning)
            is_own = client.owner in self._busy_by_owner
            self._count(client, 1)  # until it has ended with the error
        raise busy_error(NO_THREAD.format(pool=self.name), is_own=is_own, retry_after=2)

    def _dispatch(self) -> None:
        """Gives threads to the waiting jobs that may have one: first to those that have begun. The caller
        holds the lock."""
        for returning in list(self._returning):
            if self._may_run(returning.client):
                self._returning.remove(returning)
                self._count(returning.client, 1)
                returning.may_run.set()
        while (client := self._next_client()) is not None:
            if self._spacing and not self._take_start(self._jobs[client.owner][client.id][0].loop):
                return
            job = self._take_job(client)
            self._count(job.client, 1)
            if self._idle:
                self._idle.pop().put(job)
            else:
                self._threads += 1
                threading.Thread(target=self._run_jobs, args=(job,), name=self.name, daemon=True).start()

    def _next_client(self) -> Client | None:
        """The client that gets the next thread, or None if no waiting client may have one."""
        clients = (jobs[0].client for by_client in self._jobs.values() for jobs in by_client.values())
        return next(filter(self._may_run, clients), None)

    def _take_job(self, client: Client) -> PoolJob:
        """Removes the client's first job. The client is now the owner's last one, and the owner is last."""
        by_client = self._jobs.pop(client.owner)
        jobs = by_client.pop(client.id)
        job = jobs.popleft()
        if jobs:
            by_client[client.id] = jobs
        if by_client:
            self._jobs[client.owner] = by_client
        return job

    def _take_start(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Takes the next start of the pool's spacing. If it is too early, returns False and sets a timer."""
        now = time.monotonic()
        if now >= self._next_start:
            self._next_start = now + self._spacing
            return True
        if not self._has_timer:
            self._has_timer = True
            with suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(loop.call_later, self._next_start - now, self._dispatch_at_time)
        return False

    def _dispatch_at_time(self) -> None:
        with self._lock:
            self._has_timer = False
            self._dispatch()

    def _may_run(self, client: Client) -> bool:
        free = self._max_threads - self._busy
        if self._busy_by_client[client.id] < free:
            return True
        return free + self._spare > 0 and not self._busy_by_owner[client.owner]

    def _count(self, client: Client, threads: int) -> None:
        self._busy += threads
        for counter, key in ((self._busy_by_client, client.id), (self._busy_by_owner, client.owner)):
            counter[key] += threads
            if not counter[key]:
                del counter[key]

    @with_room_for_calls
    def _run_jobs(self, first: PoolJob) -> None:
        """Runs this job, and then the jobs that are put into the thread's queue."""
        lending_thread.set(self.lending_thread)
        jobs: queue.SimpleQueue[PoolJob] = queue.SimpleQueue()
        job: PoolJob | None = first
        while job is not None:
            self._local.job = job
            if job.claim.acquire(blocking=False):
                job.run(time.monotonic() - job.waiting_since if job.waiting_since else 0.0)
                self._notify(self._hooks.after_job)
            if job.expiry is not None:
                with suppress(RuntimeError):  # the server has stopped
                    job.loop.call_soon_threadsafe(job.expiry.cancel)
            with self._lock:
                self._pending -= 1
                self._idle.append(jobs)
                self._count(job.client, -1)
                self._dispatch()
            job = self._next_job(jobs)
        self._notify(self._hooks.end)

    def _next_job(self, jobs: "queue.SimpleQueue[PoolJob]") -> PoolJob | None:
        """The next job for this thread, or None if the thread should end."""
        on_idle = self._hooks.idle
        while True:
            try:
                waits = self._keeps_last() and on_idle is None
                return jobs.get(timeout=None if waits else IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if jobs not in self._idle:  # a job has been put into its queue
                        continue
                    if not self._keeps_last():
                        self._idle.remove(jobs)
                        self._threads -= 1
                        return None
                    if on_idle:
                        self._idle.remove(jobs)  # meanwhile, other threads take the jobs
                if on_idle:
                    self._notify(on_idle)
                    on_idle = None
                    with self._lock:
                        self._idle.append(jobs)
                        self._dispatch()

    def _notify(self, function: Callable[[], None] | None) -> None:
        try:
            if function:
                function()
        except Exception:  # the thread must stay, because jobs may wait for it
            log.exception("A thread for %s continues after an unexpected error", self.name)

    def _keeps_last(self) -> bool:
        return self._keeps_thread and self._threads <= 1

    def _expire(self, job: PoolJob) -> None:
        if job.claim.acquire(blocking=False):
            limit = f"{self._max_wait:g} seconds (PLAYHEAD_QUEUE_SECONDS)"
            job.refuse(self._busy_error(f"All threads for {self.name} were busy for {limit}."))

    def _full_error(self) -> ServerUnavailable:
        return self._busy_error(f"{MAX_WAITING} requests are already waiting for a thread for {self.name}.")

    def _busy_error(self, reason: str) -> ServerUnavailable:
        return foreign_lock() or ServerUnavailable(f"{reason} Try again in a moment.", retry_after=2)


class RankedPool(Pool):
    """A pool that serves the clients with the lowest rank first. Of those, the newest comes first: a client
    that has just arrived does not wait for hundreds of others that arrived together."""

    rank: Callable[[bytes], int]
    """The rank of a client. Called in any thread."""

    def _next_client(self) -> Client | None:
        clients = [jobs[0].client for by_client in self._jobs.values() for jobs in by_client.values()]
        return min(
            filter(self._may_run, reversed(clients)), key=lambda client: self.rank(client.id), default=None
        )
