"""The threads of a worker process that work on evaluations.

Like those for compression runs, see :mod:`historyapp.compression_workers`. Evaluations take long and use the
processor all the time, so they have few threads, and the threads for tasks stay free for other work.
"""

import time
from itertools import islice
from uuid import UUID

from historyapp.services.evaluations.scheduler import EvaluationScheduler
from historyapp.services.evaluations.work import process_evaluation
from historyapp.work_threads import WorkThreads, stopping, work_in_slices

EVALUATIONS_AT_ONCE = 2
SLICE_SECONDS = 5.0
"""Seconds of processor time after which a thread yields to waiting evaluations."""
SCHEDULER = EvaluationScheduler()


def start_evaluator() -> bool:
    """Lets one more thread work on evaluations. Returns False if all threads do so already."""
    return EVALUATORS.start()


def find_waiting_evaluations() -> None:
    """Starts threads for evaluations that wait, also without a message."""
    for _ in islice(SCHEDULER.candidates(), EVALUATIONS_AT_ONCE):
        start_evaluator()


def work_on_evaluations() -> None:
    """Works on evaluations until none waits. While others wait, each gets one time slice."""
    work_in_slices(SCHEDULER, work_for_one_slice)


def work_for_one_slice(evaluation: UUID) -> bool:
    """Works on an evaluation until it or the slice ends. Returns whether more is left to do."""
    end = time.thread_time() + SLICE_SECONDS

    def should_stop() -> bool:
        return stopping.is_set() or (time.thread_time() >= end and any(SCHEDULER.candidates(evaluation)))

    return process_evaluation(evaluation, should_stop)


EVALUATORS = WorkThreads("evaluations", EVALUATIONS_AT_ONCE, work_on_evaluations)
