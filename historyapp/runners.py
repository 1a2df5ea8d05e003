"""The threads of a worker process that work on compression runs.

Each takes one run after another, in the order of :mod:`historyapp.services.compression.turns`. Messages and
the clock only start threads. So messages for many runs of one project delay neither other projects' runs nor
other tasks.
"""

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from datetime import timedelta
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from historyapp.services.compression.start import projects_with_unclaimed_runs
from historyapp.services.compression.turns import Turns
from historyapp.services.reservations import short_connection
from historyapp.wire.problems import StorageFailed

log = logging.getLogger(__name__)

stopping = threading.Event()
"""Set when this process's worker must end. Tasks then start no more work."""
runs_waiting = threading.Event()
"""Set while an active run has no worker."""
RUNS_AT_ONCE = 4
TURN_SECONDS = 20.0
"""Seconds after which a thread yields to waiting runs. Otherwise long runs would delay all other runs."""
SHORT_TURN_SECONDS = 2.0
"""The same for a project with several threads, while a run of a project without a thread waits."""
TURNS = Turns()

_THREADS = ThreadPoolExecutor(RUNS_AT_ONCE, thread_name_prefix="runs")
_working: set[Future[None]] = set()
_lock = threading.Lock()


def start_runner() -> bool:
    """Lets one more thread work on runs. Returns False if all threads do so already."""
    global _working
    with _lock:
        _working = {thread for thread in _working if not thread.done()}
        if stopping.is_set() or len(_working) >= RUNS_AT_ONCE:
            return False
        _working.add(_THREADS.submit(_run_thread))
        return True


def find_waiting_runs() -> None:
    """Starts threads for runs that wait, also without a message. Finds out for whom other runs must yield."""
    for _ in islice(TURNS.candidates(), RUNS_AT_ONCE):
        start_runner()
    waiting = projects_with_unclaimed_runs()
    TURNS.without_thread = waiting - set(TURNS.projects.values())
    if waiting:
        runs_waiting.set()
    else:
        runs_waiting.clear()


def wait_for_runners() -> None:
    """Waits until the threads have ended, after ``stopping`` was set."""
    with _lock:
        threads = set(_working)
    wait_for(threads)


def _run_thread() -> None:
    try:
        with short_connection():
            work_on_runs()
    except (DatabaseError, InterfaceError, StorageFailed) as error:
        log.warning("Compression runs wait until the database can be used: %s", str(error).strip())
    except Exception:  # nobody reads the thread's result
        log.exception("A thread for compression runs has ended.")


def work_on_runs() -> None:
    """Works on runs until none waits. Each run has one turn, which ends early if it must yield to others."""
    while not stopping.is_set() and (run := TURNS.take()) is not None:
        wait: timedelta | None = timedelta(seconds=settings.PLAYHEAD_SWEEP_SECONDS)  # after an error
        try:
            wait = timedelta(0) if work_for_one_turn(run) else None
        finally:
            TURNS.end(run, wait)


def work_for_one_turn(run: UUID) -> bool:
    """Works on a run until it or its turn ends. Returns False if it gives its thread to another project."""
    started = time.monotonic()
    gives_thread = False

    def should_stop() -> bool:
        nonlocal gives_thread
        seconds = time.monotonic() - started
        gives_thread = gives_thread or (seconds >= SHORT_TURN_SECONDS and TURNS.has_too_many(run))
        return gives_thread or stopping.is_set() or (runs_waiting.is_set() and seconds >= TURN_SECONDS)

    # Imported here: only workers load the model SDKs.
    from historyapp.services.compression.run import process_run
    from historyapp.services.compression.writers import WRITER

    process_run(run, should_stop, WRITER)
    return not gives_thread
