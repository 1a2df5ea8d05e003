"""Works on a run: claims items, has their summaries made side by side, and stores what comes back.

A worker may die at any moment. Other workers take its items when its claims expire, and what it had stored
stays. So only the model calls that were under way are paid for twice.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from uuid_utils.compat import uuid7

from historyapp.models import CompressionRun
from historyapp.services.compression.items import Job, claim, plan, read_jobs, release, renew
from historyapp.services.compression.store import break_off, finish, store
from historyapp.services.compression.summarise import ItemResult, Summariser
from historyapp.services.compression.writing import InlineWriter, Writer
from historyapp.wire.problems import StorageFailed

log = logging.getLogger(__name__)

WITHOUT_MODEL = 50
"""Items made together where no model is called: storing each by itself would cost more than making it."""
REST = 2
"""Seconds without writing after each second of writing."""
BUSY_REST = 1.0
"""Seconds between two writes while an agent appends to the session: agents go first."""
LOOK = 1.0
"""Seconds after which a worker notices at the latest that its run was cancelled."""


def work_on(run_id: UUID, stopping: Callable[[], bool] = lambda: False, writer: Writer | None = None) -> None:
    """Works on a run until nothing is left to begin.

    Args:
        stopping: whether the worker is to end. Nothing more is begun then.
        writer: writes the summaries; None: this process does. Workers use one that can be ended.
    """
    try:
        if plan(run_id):
            with suppress(CompressionRun.DoesNotExist):  # deleted with its session meanwhile
                _Worker(run_id, stopping, writer or InlineWriter()).work()
    except (DatabaseError, InterfaceError, StorageFailed):
        raise  # the sweep wakes a worker for the run again
    except Exception as error:
        if stopping():
            raise
        log.exception("The run %s is broken off", run_id)
        reason = f"The run stopped at an unexpected {type(error).__name__}; the worker's log has details."
        break_off(run_id, reason)


@cache
def _threads(provider: str) -> ThreadPoolExecutor:
    """The threads for a provider's model calls, shared by all runs of this process.

    Extracts have threads of their own. So a provider that does not answer delays no other.
    """
    return ThreadPoolExecutor(settings.PLAYHEAD_CONCURRENCY, thread_name_prefix=f"summarise {provider}")


class _Worker:
    """One task's share of a run. Its thread alone uses the database; pool threads make the summaries."""

    def __init__(self, run_id: UUID, stopping: Callable[[], bool], writer: Writer) -> None:
        self._run = CompressionRun.objects.select_related("session").get(pk=run_id)
        self._stopping = stopping
        self._summariser = Summariser(self._run, writer)
        calls_model = self._summariser.calls_model
        self._at_once = settings.PLAYHEAD_CONCURRENCY if calls_model else 1
        self._items_each = 1 if calls_model else WITHOUT_MODEL
        self._owner: UUID = uuid7()
        self._claimed: deque[Job] = deque()
        """Not begun."""
        self._under_way: set[Future[list[ItemResult]]] = set()
        self._results: list[ItemResult] = []
        """Not stored."""
        self._head, self._busy = 0, True
        """The session's head at the last write, and whether it had grown by then: an agent is appending."""
        self._next_write = self._next_renewal = 0.0
        self._all_claimed = False
        """Whether the last claim got less than it asked for: other workers hold the rest."""
        self._ended = False
        """Whether the run had ended when last looked at: it was cancelled, or others finished it."""

    def work(self) -> None:
        try:
            while True:
                self._begin()
                if not self._under_way:
                    time.sleep(max(0, self._next_write - time.monotonic()))
                enough = self._summariser.calls_model and len(self._results) >= self._at_once
                if enough or time.monotonic() >= self._next_write:  # what is paid for does not wait long
                    self._write()
                    self._begin()
                if self._under_way:
                    self._wait()
                elif not finish(self._run.pk) or self._stopping():
                    return
        finally:
            release(self._owner)

    def _begin(self) -> None:
        while self._claimed and len(self._under_way) < self._at_once and not self._stopping():
            jobs = [self._claimed.popleft() for _ in range(min(self._items_each, len(self._claimed)))]
            self._under_way.add(_threads(self._summariser.provider).submit(self._summarise, jobs))

    def _summarise(self, jobs: Sequence[Job]) -> list[ItemResult]:
        """In a pool thread. Nothing where the run ended while the jobs waited for the thread."""
        return [] if self._ended or self._stopping() else [self._summariser.summarise(*job) for job in jobs]

    def _write(self) -> None:
        """Stores results, claims items, and renews claims; then sets the time of the next write."""
        begun = time.monotonic()
        if self._results:
            if any(result.fatal or result.unreachable for result in self._results):
                # The run may fail them, or claim them again.
                release(self._owner, [job.item.pk for job in self._claimed])
                self._claimed.clear()
            head = store(self._run.pk, self._owner, self._results)
            self._results = []
            self._busy, self._head = head != self._head, head
        # As many items are claimed as are under way, so that no thread waits for the database.
        wanted = self._at_once * self._items_each
        few_left = len(self._claimed) <= wanted / 2 and not (self._all_claimed and self._under_way)
        if few_left and not self._stopping():
            missing = 2 * wanted - len(self._claimed)
            items = claim(self._run.pk, self._owner, missing)
            self._claimed += read_jobs(self._run, items)
            self._all_claimed = len(items) < missing
            self._ended = self._ended and not items  # a cancelled run may have been retried
        if begun >= self._next_renewal:
            renew(self._owner)
            self._next_renewal = begun + settings.PLAYHEAD_CLAIM_SECONDS / 3
        now = time.monotonic()
        self._next_write = now + (BUSY_REST if self._busy else REST * (now - begun))

    def _wait(self) -> None:
        """Until a summary is ready, or the next write is due."""
        pause = self._next_write - time.monotonic() if self._results else LOOK
        pause = max(0, min(pause, settings.PLAYHEAD_CLAIM_SECONDS / 3))
        ready, self._under_way = wait(self._under_way, pause, FIRST_COMPLETED)
        self._results += [result for future in ready for result in future.result()]
        self._ended = not CompressionRun.objects.active().filter(pk=self._run.pk).exists()
        if self._ended:
            self._claimed.clear()  # released in the end
