"""The threads of a worker process that work on compression runs.

Each takes one run after another, in the order of :mod:`historyapp.services.compression.turns`. Messages and
the clock only start threads. So messages for many runs of one project delay neither other projects' runs nor
other tasks.
"""

import threading
import time
from itertools import islice
from uuid import UUID

from historyapp.services.compression.start import projects_with_unclaimed_runs
from historyapp.services.compression.turns import RUNS_AT_ONCE, RunTurns
from historyapp.work_threads import WorkThreads, stopping, work_in_turns

runs_waiting = threading.Event()
"""Set while an active run has no worker."""
MAX_RUNNERS = 16
"""The threads for runs, with those whose runs only wait for their last model calls."""
TURN_SECONDS = 20.0
"""Seconds after which a thread yields to waiting runs. Otherwise long runs would delay all other runs."""
SHORT_TURN_SECONDS = 2.0
"""The same for a project with several threads, while a run of a project without a thread waits."""
TURNS = RunTurns()


def start_runner() -> bool:
    """Lets one more thread work on runs. Returns False if all threads do so already."""
    return RUNNERS.start()


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


def work_on_runs() -> None:
    """Works on runs until none waits. Each run has one turn, which ends early if it must yield to others."""
    work_in_turns(TURNS, work_for_one_turn)


def work_for_one_turn(run: UUID) -> bool:
    """Works on a run until it or its turn ends. Returns False if it gives its thread to another project."""
    started = time.monotonic()
    gives_thread = must_stop = False

    def should_stop() -> bool:
        nonlocal gives_thread, must_stop
        seconds = time.monotonic() - started
        gives_thread = gives_thread or (seconds >= SHORT_TURN_SECONDS and TURNS.has_too_many(run))
        has_ended = stopping.is_set() or (runs_waiting.is_set() and seconds >= TURN_SECONDS)
        # A turn that must end never continues: another thread may already have its place.
        must_stop = must_stop or gives_thread or has_ended
        if must_stop:
            TURNS.mark_ending(run)
        return must_stop

    # Imported here: only workers load the model SDKs.
    from historyapp.services.compression.run import process_run
    from historyapp.services.compression.writers import WRITER

    process_run(run, should_stop, WRITER)
    return not gives_thread


RUNNERS = WorkThreads("compression runs", MAX_RUNNERS, work_on_runs)
