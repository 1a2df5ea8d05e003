"""Chooses the compression run that a thread works on next, and finds runs that were cancelled."""

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, Window
from django.db.models.functions import RowNumber

from historyapp.models import CompressionItem, CompressionRun
from historyapp.services.compression.start import active_runs
from historyapp.services.connections import unlimited_connection
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler

RUNS_AT_ONCE = 4
"""The threads of a process that start summaries. At most this many for runs that call a model, and as many
for the others."""
MAX_READ = 500
"""The maximum number of runs of a project that are read at once. The others follow when these have ended."""
CANCEL_CHECK_SECONDS = 0.5
"""A worker notices within twice this many seconds that its run was cancelled."""


class RunScheduler(FairScheduler):
    """Divides the threads for compression runs among projects.

    A run that must yield first waits for its running model calls, up to two minutes. Meanwhile, a project
    without a thread gets another one.

    Args:
        calls_model: whether it chooses among the runs that call a provider's model, or among the others.
    """

    shared_threads = RUNS_AT_ONCE

    def __init__(self, *, calls_model: bool = False) -> None:
        super().__init__()
        self.calls_model = calls_model

    def active(self) -> list[ActiveWork]:
        """The oldest :data:`MAX_READ` active runs of each project, the oldest first."""
        numbered = active_runs(calls_model=self.calls_model).annotate(
            number=Window(RowNumber(), partition_by="project_id", order_by="id")
        )
        runs = numbered.filter(number__lte=MAX_READ).order_by("id")
        return [ActiveWork(*row) for row in runs.values_list("pk", "project_id", "created_at")]

    def with_work(self, active: Sequence[ActiveWork], now: datetime) -> list[ActiveWork]:
        """Those runs that no worker has begun or plans, or that have items for one more worker."""
        items = CompressionItem.objects.filter(run=OuterRef("pk"))
        has_work = ~Exists(items.in_progress(now)) | Exists(items.claimable(now).order_by())
        found = CompressionRun.objects.filter(Q(has_work), pk__in=[run.id for run in active])
        ids = set(found.not_in_planning(now).values_list("pk", flat=True))
        return [run for run in active if run.id in ids]


class ActiveRuns:
    """Threads that wait for a model learn that their run was cancelled without a connection of their own."""

    def __init__(self) -> None:
        self._runs = set[UUID]()
        """The runs that threads of this process work on."""
        self._active = frozenset[UUID]()
        """Those that were active at the last check."""
        self._next_check = 0.0
        self._lock = threading.Lock()

    def contains(self, run: UUID) -> bool:
        """Whether the run was active within the last :data:`CANCEL_CHECK_SECONDS`. Until :meth:`forget`, each
        check includes it."""
        with self._lock:
            if run not in self._runs or time.monotonic() >= self._next_check:
                self._runs.add(run)
                active = CompressionRun.objects.active().filter(pk__in=self._runs)
                with unlimited_connection():
                    self._active = frozenset(active.values_list("pk", flat=True))
                self._next_check = time.monotonic() + CANCEL_CHECK_SECONDS
            return run in self._active

    def forget(self, run: UUID) -> None:
        """Ends the checks of a run."""
        with self._lock:
            self._runs.discard(run)


ACTIVE_RUNS = ActiveRuns()
