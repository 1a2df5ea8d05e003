"""Runs a Celery worker in this process, with threads for tasks, and a clock that finds work that has no
message."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat
from uuid import UUID

from celery.worker import state
from django.conf import settings
from uuid_utils.compat import uuid7

from historyapp.announcements import announce_changes
from historyapp.bulk_workers import BULK_WORKERS, find_waiting_bulk_actions
from historyapp.celery import app
from historyapp.clock import run_clock
from historyapp.compression_workers import LANES, find_waiting_runs
from historyapp.core.settings import SessionSettings
from historyapp.duties import Duties
from historyapp.enqueue import not_requested
from historyapp.evaluators import EVALUATORS, find_waiting_evaluations
from historyapp.indexers import INDEXERS, find_waiting_indexes, request_index
from historyapp.services.faults import UNREACHABLE
from historyapp.services.figures.feed import cpu_time_limit, follow_changes
from historyapp.services.long_transactions import limit_transactions
from historyapp.services.lost_claims import end_waiting_claims
from historyapp.services.search.index import projects_to_index
from historyapp.services.transactions import giving_way
from historyapp.tasks import CHORES, is_busy, request_due_runs, send_due_webhooks, sweep
from historyapp.work_threads import stopping

log = logging.getLogger(__name__)

TASKS_AT_ONCE = 4
"""Tasks only start threads of other kinds, except the chores that an earlier version requested."""
NICENESS = 10
"""The worker's scheduling priority is lower than that of the web process, which serves agents and people."""
STOP_SECONDS = 10
"""The time limit for running tasks when the worker must end, in seconds."""
RESTART_SECONDS = 5
"""Seconds before restarting a worker that stopped unexpectedly, for example because it lost its queue."""


SWEEP_RETRY_SECONDS = 5
"""Seconds until the next sweep, after a part of one failed."""
FOLLOW_SECONDS = 0.5
"""Seconds of processor time for one update of projects' figures, each second."""


def prepare() -> None:
    """Loads the modules and the data that the first run needs, in this process and in the writer process."""
    import historyapp.services.compression.run  # noqa: F401
    from historyapp.services.summary_writers.writers import WRITER

    WRITER.start(SessionSettings().spacy_language_model)


@giving_way()  # for the messages that it takes
def run_worker(worker_id: UUID | None = None, idle_seconds: float | None = None) -> None:
    """Works until :func:`stop_worker` is called, or until there was no work for ``idle_seconds``."""
    os.nice(NICENESS)  # on Linux, it applies to this thread and the threads that it starts
    os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # URL checks load the API and the pages
    limit_transactions()
    _remove_file_queue()
    announce_changes()
    look = _look(idle_seconds)
    clock = threading.Thread(target=run_clock, args=(worker_id or uuid7(), look, stopping), daemon=True)
    clock.start()
    while not stopping.is_set():
        worker = app.WorkController(
            pool_cls="threads",
            concurrency=TASKS_AT_ONCE,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            quiet=True,
        )
        worker.start()  # returns when the worker was stopped and the running tasks have ended
        if not stopping.is_set():
            log.error("The worker has stopped; it starts again in %s seconds.", RESTART_SECONDS)
            stopping.wait(RESTART_SECONDS)
    clock.join()
    for threads in (*(lane.threads for lane in LANES), BULK_WORKERS, EVALUATORS, INDEXERS, *CHORES.values()):
        threads.wait()
    with suppress(*UNREACHABLE):  # otherwise the claims expire
        end_waiting_claims()


def _remove_file_queue() -> None:
    """Removes the queue files of older versions. The first sweep finds their runs."""
    folder = settings.PLAYHEAD_HOME / "queue"
    for name, pattern in (("messages", "*.msg"), ("control", "*.exchange")):
        with suppress(OSError):  # usually the folder does not exist
            for file in (folder / name).glob(pattern):
                file.unlink()
            (folder / name).rmdir()
    with suppress(OSError):  # the folder stays if it contains other files
        folder.rmdir()


def stop_worker() -> None:
    """Stops the worker: it starts no more tasks, and finishes the running tasks."""
    stopping.set()
    state.should_stop = 0  # type: ignore[assignment]  # an exit code; the stubs allow only None


def leave(code: int = 0) -> None:
    """Ends the process at once. Python's own exit would wait for the threads of model calls."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _look(idle_seconds: float | None) -> Callable[[], None]:
    """Returns the function that the clock calls every second.

    It finds due sessions, due webhooks, waiting runs, bulk actions and evaluations, updates projects'
    figures, and sweeps every minute. An error of one of these does not stop the others. It stops the worker
    after ``idle_seconds`` without work.
    """
    # The second sweep runs when the claims of a killed worker have expired.
    waits = chain([settings.PLAYHEAD_CLAIM_SECONDS + 1], repeat(settings.PLAYHEAD_SWEEP_SECONDS))
    next_sweep = 0.0
    last_work = time.monotonic()
    duties = Duties()

    def request_search_indexes() -> None:
        for project in not_requested("search", projects_to_index()):
            request_index("search", project)

    def look() -> None:
        nonlocal next_sweep, last_work
        if time.monotonic() >= next_sweep:
            wait = next(waits) if sweep() else SWEEP_RETRY_SECONDS
            next_sweep = time.monotonic() + wait
        duties.attempt("end claims", end_waiting_claims)
        duties.attempt("send webhooks", send_due_webhooks)
        duties.attempt("start automatic runs", request_due_runs)
        duties.attempt("find waiting runs", find_waiting_runs)
        duties.attempt("find waiting bulk actions", find_waiting_bulk_actions)
        duties.attempt("find waiting evaluations", find_waiting_evaluations)
        duties.attempt("find waiting indexes", find_waiting_indexes)
        duties.attempt("request indexes of searches", request_search_indexes)
        is_behind = duties.attempt("count figures", lambda: follow_changes(cpu_time_limit(FOLLOW_SECONDS)))
        if is_busy() or is_behind or duties.failing:
            last_work = time.monotonic()
        elif idle_seconds is not None and time.monotonic() >= last_work + idle_seconds:
            stop_worker()

    return look
