"""Works on a run: claims its planned items, makes their summaries in parallel, and stores them.

A worker may die at any time. Stored summaries stay, and other workers take its items when its claims expire.
So only the running model calls are paid for twice.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext, suppress
from functools import cache, partial
from itertools import chain
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from uuid_utils.compat import uuid7

from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.database_clock import elapsed
from historyapp.services.compression.active_runs import ACTIVE_RUNS, CANCEL_CHECK_SECONDS
from historyapp.services.compression.already_made import leave_out_needless
from historyapp.services.compression.claims import claim, release, renew
from historyapp.services.compression.items import (
    BYTES_IN_MEMORY,
    TOO_LONG,
    Job,
    fail_more_waiting,
    plan,
    read_jobs,
)
from historyapp.services.compression.provider_limits import allowed_calls
from historyapp.services.compression.store import abort_run, finish_run, store_in_parts
from historyapp.services.compression.summarise import ClaimEnded, ItemResult, Summariser
from historyapp.services.connections import release_connection
from historyapp.services.faults import concerns_data
from historyapp.services.lost_claims import end_claim
from historyapp.services.model_call_threads import CallThreads
from historyapp.services.summary_writers.writers import InlineWriter, WriteCancelled, Writer
from historyapp.services.transactions import giving_way, waiting_briefly
from historyapp.wire.problems import ServerUnavailable, TransactionTooLong

log = logging.getLogger(__name__)

T = TypeVar("T")

ITEMS_WITHOUT_MODEL = 50
"""The number of items that a thread takes if no model is called, because storing a single item takes longer
than making its summary."""
WRITE_PAUSE, MAX_WRITE_PAUSE = 2, 10.0
"""Seconds without writing after each second of writing, and at most: the database may have been away."""
BUSY_WRITE_PAUSE = 1.0
"""Seconds between two writes while an agent appends to the session, because agents have priority, or while
other runs make the summaries of the same steps."""
STORE_SECONDS, STORE_PAUSE = 120.0, 0.25
"""How long a run with model calls tries to reach the database, and how long it waits after each attempt."""
KEEP_SECONDS, LOG_SECONDS = 3600.0, 60.0
"""The same while it has paid results or running calls, and the time between two warnings about it."""
MAX_TOO_LONG, TOO_LONG_PAUSE = 4, 5.0
"""The attempts at a transaction that takes too long, after which a run ends, and the seconds between two of
them. Other processes can write meanwhile."""


def process_run(
    run_id: UUID,
    should_stop: Callable[[], bool] = lambda: False,
    writer: Writer | None = None,
    is_ending: Callable[[], bool] = lambda: False,
) -> None:
    """Works on a run until no item is left to start.

    Args:
        should_stop: returns whether the worker must stop. Then no further item is started.
        is_ending: whether the process ends. Then paid results do not wait long for the database.
        writer: writes the summaries, by default in this process. Workers pass one that uses a process that
            can be killed.
    """
    try:
        if plan(run_id, should_stop):
            with suppress(CompressionRun.DoesNotExist):  # the session was deleted meanwhile
                _RunWorker(run_id, should_stop, writer or InlineWriter(), is_ending).work()
    except Exception as error:
        if should_stop() or not concerns_data(error):
            raise  # the sweep wakes a worker for this run
        log.exception("The run %s has failed", run_id)
        abort_run(run_id, _reason(error))


def _reason(error: Exception) -> str:
    """Why a run stopped, for its note."""
    if isinstance(error, TransactionTooLong):
        seconds = f"{settings.PLAYHEAD_TRANSACTION_SECONDS:g} seconds (PLAYHEAD_TRANSACTION_SECONDS)"
        return f"The compression stopped because its writes took more than {seconds}. Wait for less load."
    return (
        f"The compression stopped because of an unexpected {type(error).__name__}. "
        "The worker's log has details."
    )


@cache
def _threads(provider: str) -> CallThreads:
    """The threads for a provider's model calls, shared by all runs of this process.

    Summaries without a model have their own threads. So a provider that does not respond delays no other run.
    """
    return CallThreads(f"summarise {provider}", settings.PLAYHEAD_CONCURRENCY)


class _RunWorker:
    """One task's part of a run. Only its own thread uses the database; other threads make the summaries."""

    def __init__(
        self, run_id: UUID, should_stop: Callable[[], bool], writer: Writer, is_ending: Callable[[], bool]
    ) -> None:
        self._run = CompressionRun.objects.select_related("session__project").get(pk=run_id)
        self._should_stop, self._is_ending = should_stop, is_ending
        self._ended = False
        """Whether the run had ended at the last check, because it was cancelled or other workers finished
        it."""
        self._summariser = Summariser(self._run, writer, lambda: self._ended)
        calls_model = self._summariser.calls_model
        self._max_running = settings.PLAYHEAD_CONCURRENCY if calls_model else 1
        self._items_per_thread = 1 if calls_model else ITEMS_WITHOUT_MODEL
        self._owner: UUID = uuid7()
        self._claim_ends: dict[int, float] = {}
        """The items that this worker has claimed, with the times of :func:`elapsed` until which no other
        can."""
        self._claimed: deque[Job] = deque()
        """Claimed items that are not started yet."""
        self._running: dict[Future[list[ItemResult]], list[Job]] = {}
        """The items that other threads summarise, or that wait for such a thread."""
        self._paused = False
        """Whether items are not started because of the model's pause."""
        self._error = ""
        """The error with which the waiting items are failing; otherwise empty."""
        self._results: list[ItemResult] = []
        """Results that are not stored yet."""
        self._head, self._busy = 0, True
        """The session's head at the last write, and whether it had changed, because an agent is appending."""
        self._next_write = self._next_renewal = 0.0
        self._all_claimed = False
        """Whether the last claim got fewer items than requested, because other workers have claimed the
        others."""

    def work(self) -> None:
        try:
            while True:
                self._start_jobs()
                if not self._running and not self._paused:
                    self._sleep(self._next_write - time.monotonic())
                enough = self._summariser.calls_model and len(self._results) >= self._max_running
                if enough or time.monotonic() >= self._next_write:  # paid results are stored soon
                    self._write()
                    self._start_jobs()
                if self._running or self._paused:
                    self._wait()
                elif self._results:
                    continue  # items that are too long
                elif not self._reach(partial(finish_run, self._run.pk)) or self._should_stop():
                    return
        finally:
            ACTIVE_RUNS.forget(self._run.pk)
            BYTES_IN_MEMORY.forget(self._owner)
            end_claim(partial(release, self._owner))

    def _start_jobs(self) -> None:
        """Starts claimed items. During the model's pause they wait here, not in the threads that all projects
        share."""
        if self._claimed or self._running:
            self._renew_if_due()
        free = self._claimed and len(self._running) < self._max_running and not self._should_stop()
        allowed = self._allowed_calls() if free else self._max_running
        while self._claimed and len(self._running) < allowed and not self._should_stop():
            jobs = [self._claimed.popleft() for _ in range(min(self._items_per_thread, len(self._claimed)))]
            threads = _threads(self._summariser.provider)
            project = self._run.session.project_id
            future = threads.submit(project, giving_way("runs", project)(partial(self._summarise, jobs)))
            self._running[future] = jobs
        self._paused = bool(self._claimed) and allowed < self._max_running

    def _allowed_calls(self) -> int:
        if not self._summariser.calls_model:
            return self._max_running
        return allowed_calls(self._run.model, self._run.session.project_id, self._max_running)

    def _summarise(self, jobs: Sequence[Job]) -> list[ItemResult]:
        """Makes summaries in another thread, until the run must stop or has ended, or its model pauses."""
        results = []
        for job in jobs:
            if self._ended or self._should_stop() or not self._allowed_calls():
                break
            try:
                may_call = partial(self._may_call, job)
                results.append(self._summariser.summarise(job.item, job.source, may_call))
            except (WriteCancelled, ClaimEnded):
                break
        return results

    def _write(self) -> None:
        """Stores results, claims items, and renews claims; then sets the time of the next write."""
        started = time.monotonic()
        if self._results:
            if any(result.fatal or result.unreachable for result in self._results):
                # The run may end and fail these items, or claim them again.
                self._release([job.item.pk for job in self._claimed])
                self._claimed.clear()
            head, self._error = store_in_parts(self._run.pk, self._owner, self._results, self._reach)
            self._results = []
            self._busy, self._head = head != self._head, head
        elif self._error and not fail_more_waiting(self._run.pk, self._error):
            self._error = ""
        # Twice as many items are claimed as can run, so that no thread waits for the database.
        target = self._max_running * self._items_per_thread
        is_working = self._running or self._paused
        few_left = len(self._claimed) <= target / 2 and not (self._all_claimed and is_working)
        room = BYTES_IN_MEMORY.room(self._owner, self._jobs_in_memory())
        if few_left and room is not None and not self._error and not self._should_stop():
            missing = 2 * target - len(self._claimed)
            items = self._reach(lambda: self._claim(missing))
            left = self._reach(lambda: leave_out_needless(self._run, self._owner, items))
            self._error = left.error
            read = self._reach(lambda: read_jobs(self._run, left.items, room))
            self._claimed += read.jobs
            BYTES_IN_MEMORY.room(self._owner, self._jobs_in_memory())  # at once, because other runs read now
            self._results += [ItemResult(item.pk, error=TOO_LONG) for item in read.too_long]
            if read.unread:
                self._release([item.pk for item in read.unread])
            self._all_claimed = len(items) < missing
            if not items and not is_working:
                self._busy = True  # it may wait for the items of other runs
            self._ended = self._ended and not items  # a cancelled run may have been retried
        self._renew_if_due()
        now = time.monotonic()
        pause = min(WRITE_PAUSE * (now - started), MAX_WRITE_PAUSE)
        self._next_write = now + (BUSY_WRITE_PAUSE if self._busy else pause)

    def _claim(self, limit: int) -> list[CompressionItem]:
        until = elapsed() + settings.PLAYHEAD_CLAIM_SECONDS
        items = claim(self._run.pk, self._owner, limit)
        self._claim_ends |= dict.fromkeys([item.pk for item in items], until)
        return items

    def _renew_if_due(self) -> None:
        """Renews the claims, and forgets the items that other workers have claimed meanwhile."""
        if elapsed() >= self._next_renewal:
            self._reach(self._renew)
            self._claimed = deque(job for job in self._claimed if job.item.pk in self._claim_ends)

    def _renew(self) -> None:
        started = elapsed()
        self._claim_ends = dict.fromkeys(renew(self._owner), started + settings.PLAYHEAD_CLAIM_SECONDS)
        self._next_renewal = started + settings.PLAYHEAD_CLAIM_SECONDS / 3

    def _may_call(self, job: Job) -> bool:
        """Whether the item may have another model call: the run has not ended, and no other worker can have
        claimed the item, for example while this process was stopped."""
        return not self._ended and elapsed() < self._claim_ends.get(job.item.pk, 0)

    def _jobs_in_memory(self) -> Iterator[Job]:
        return chain(self._claimed, chain.from_iterable(self._running.values()))

    def _reach(self, access: Callable[[], T]) -> T:
        """The result of ``access``. While the database cannot be reached, paid results wait here, and so do
        model calls that are being made: if this run gave up, they would be made and paid again.

        With a model, it waits for locks for a part of a transaction's time, so that a row that somebody else
        has locked is such a failure, and not a transaction that takes too long.
        """
        started, next_warning, too_long = time.monotonic(), 0.0, 0
        wait = settings.PLAYHEAD_TRANSACTION_SECONDS / 3
        while True:
            try:
                with waiting_briefly(wait) if self._summariser.calls_model else nullcontext():
                    return access()
            except TransactionTooLong as error:
                too_long += 1
                if too_long == MAX_TOO_LONG:
                    raise
                log.warning("The run %s writes again: %s", self._run.pk, error)
                time.sleep(TOO_LONG_PAUSE)
            except (OperationalError, InterfaceError, ServerUnavailable) as error:
                now = time.monotonic()
                is_paid = bool(self._results or self._running) and not self._is_ending()
                patience = KEEP_SECONDS if is_paid else STORE_SECONDS
                if not self._summariser.calls_model or now - started >= patience:
                    raise
                if now >= next_warning:
                    log.warning("The run %s waits for the database: %s", self._run.pk, error)
                    next_warning = now + LOG_SECONDS
                connection.close()
                time.sleep(STORE_PAUSE)
            self._keep_claims()

    def _keep_claims(self) -> None:
        """Renews the claims if it is time and possible. The items of waiting results would be paid again."""
        if elapsed() >= self._next_renewal:
            with suppress(OperationalError, InterfaceError, ServerUnavailable):
                self._renew()

    def _wait(self) -> None:
        """Waits until a summary is ready or the next write is due."""
        pause = self._next_write - time.monotonic() if self._results else CANCEL_CHECK_SECONDS
        pause = max(0, min(pause, settings.PLAYHEAD_CLAIM_SECONDS / 3))
        if not self._running:
            self._sleep(pause)
        elif self._summariser.calls_model:
            release_connection()  # because PostgreSQL limits their number
        for future in wait(self._running, pause, FIRST_COMPLETED).done:
            jobs, results = self._running.pop(future), future.result()
            self._results += results
            made = {result.item for result in results if not result.interrupted}
            left = [job for job in jobs if job.item.pk not in made and job.item.pk in self._claim_ends]
            self._claimed.extendleft(reversed(left))
        self._ended = not self._reach(lambda: ACTIVE_RUNS.contains(self._run.pk))
        if self._ended or self._should_stop():
            self._release_waiting()

    def _sleep(self, seconds: float) -> None:
        if self._summariser.calls_model and seconds > 0:
            release_connection()
        time.sleep(max(0, seconds))

    def _release_waiting(self) -> None:
        """Releases the items whose summaries have not begun, so that others can take them at once.

        This includes those that wait for a thread, because other runs have them all.
        """
        items = [job.item.pk for job in self._claimed]
        self._claimed.clear()
        self._paused = False
        for future in list(self._running):
            if future.cancel():
                items += [job.item.pk for job in self._running.pop(future)]
        if items:
            self._release(items)

    def _release(self, items: Collection[int]) -> None:
        self._reach(lambda: release(self._owner, items))
