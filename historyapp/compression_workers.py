"""The threads of a worker process that work on compression runs.

Each takes one run after another, in the order of :class:`RunScheduler`.
Messages and the clock only start threads. So messages for many runs of one project delay neither other
projects' runs nor other tasks.

Runs that call a provider's model mostly wait for it. They have threads of their own, so however many projects
have such runs, they delay no run without a model.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, Window
from django.db.models.functions import RowNumber

from historyapp.llm.router import LOCAL, PROVIDERS
from historyapp.models import CompressionItem, CompressionRun
from historyapp.services.compression.start import active_runs, projects_with_unclaimed_runs
from historyapp.services.connections import limited_connections
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler
from historyapp.work_threads import WorkThreads, stopping, work_in_slices

RUNS_AT_ONCE = 4
"""The threads of a process that start summaries. At most this many for runs that call a model, and as many
for the others."""
MAX_READ = 500
"""The maximum number of runs of a project that are read at once. The others follow when these have ended."""
MAX_LOCAL_THREADS = 8
"""The threads for runs without a model, with those whose runs only end their last summary."""
MAX_MODEL_THREADS = min(RUNS_AT_ONCE + 2 * settings.PLAYHEAD_CONCURRENCY * len(PROVIDERS), 64)
"""The threads for runs that call a model, with those whose runs only wait for their last calls. Such a run
has a running call, and a process has at most twice ``PLAYHEAD_CONCURRENCY`` of these for each provider."""
SLICE_SECONDS = 20.0
"""Seconds after which a thread yields to waiting runs. Otherwise long runs would delay all other runs."""
SHORT_SLICE_SECONDS = 2.0
"""The same for a project with several threads, while a run of a project without a thread waits."""


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


class RunLane:
    """The threads for runs that call a provider's model, or those for the other runs."""

    def __init__(self, name: str, max_threads: int, *, calls_model: bool) -> None:
        self.calls_model = calls_model
        self.scheduler = RunScheduler(calls_model=calls_model)
        self.waiting = threading.Event()
        """Set while an active run of this lane has no worker."""
        self.threads = WorkThreads(name, max_threads, self.work, "runs")

    @property
    def is_busy(self) -> bool:
        """Whether this process works on a run, or a run waits."""
        return bool(self.scheduler.projects) or self.waiting.is_set()

    def find_waiting_runs(self) -> None:
        """Starts threads for runs that wait, also without a message. Finds out for whom others must yield."""
        for _ in islice(self.scheduler.candidates(), RUNS_AT_ONCE):
            self.threads.start()
        waiting = projects_with_unclaimed_runs(calls_model=self.calls_model)
        self.scheduler.without_thread = waiting - set(self.scheduler.projects.values())
        if waiting:
            self.waiting.set()
        else:
            self.waiting.clear()

    def work(self) -> None:
        """Works on runs until none waits, each for a time slice. A slice ends early to let others work."""
        work_in_slices(self.scheduler, self.work_for_one_slice)

    def work_for_one_slice(self, run: UUID) -> bool:
        """Works on a run until it or the slice ends. Returns False if it gives its thread to another
        project."""
        started = time.monotonic()
        gives_thread = must_stop = False

        def should_stop() -> bool:
            nonlocal gives_thread, must_stop
            seconds = time.monotonic() - started
            is_short = seconds < SHORT_SLICE_SECONDS
            gives_thread = gives_thread or (not is_short and self.scheduler.has_too_many(run))
            has_ended = stopping.is_set() or (self.waiting.is_set() and seconds >= SLICE_SECONDS)
            # A slice that must end never continues: another thread may already work instead.
            must_stop = must_stop or gives_thread or has_ended
            if must_stop:
                self.scheduler.mark_ending(run)
            return must_stop

        # Imported here: only workers load the model SDKs.
        from historyapp.services.compression.run import process_run
        from historyapp.services.summary_writers.writers import WRITER

        owner = ("runs", self.scheduler.projects.get(run))
        with limited_connections(owner) if self.calls_model else nullcontext():
            process_run(run, should_stop, WRITER, stopping.is_set)
        return not gives_thread


LOCAL_RUNS = RunLane("compression runs", MAX_LOCAL_THREADS, calls_model=False)
MODEL_RUNS = RunLane("compression runs with a model", MAX_MODEL_THREADS, calls_model=True)
LANES = (LOCAL_RUNS, MODEL_RUNS)


def start_compression_worker(run: UUID) -> bool:
    """Lets one more thread work on runs like this one. Returns False if all threads do so already."""
    model = CompressionRun.objects.filter(pk=run).values_list("model", flat=True).first()
    if model is None:
        return False  # its session was deleted
    lane = LOCAL_RUNS if model in ("", LOCAL) else MODEL_RUNS
    return lane.threads.start()


def find_waiting_runs() -> None:
    """Starts threads for runs that wait, in both lanes."""
    for lane in LANES:
        lane.find_waiting_runs()
