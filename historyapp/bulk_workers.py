"""The threads of a worker process that work on bulk actions.

Like those for evaluations, see :mod:`historyapp.evaluators`. The actions of a project share one thread and
take turns, so that they do not delay other projects' actions.
"""

import time
from datetime import timedelta
from itertools import islice
from uuid import UUID

from historyapp.compression_workers import SLICE_SECONDS
from historyapp.enqueue import wake
from historyapp.services.bulk.scheduler import BulkScheduler
from historyapp.services.bulk.work import InUse, process_bulk_action
from historyapp.work_threads import WorkThreads, stopping, work_in_slices

ACTIONS_AT_ONCE = 4
IN_USE_WAIT = timedelta(seconds=5)
"""This process leaves an action to another worker for this time."""
SCHEDULER = BulkScheduler()


def start_bulk_worker() -> bool:
    """Lets one more thread work on bulk actions. Returns False if all threads do so already."""
    return BULK_WORKERS.start()


def find_waiting_bulk_actions() -> None:
    """Starts threads for bulk actions that wait, also without a message."""
    for _ in islice(SCHEDULER.candidates(), ACTIONS_AT_ONCE):
        start_bulk_worker()


def work_on_bulk_actions() -> None:
    """Works on bulk actions until none waits. After a slice, an action waits behind its project's others."""
    work_in_slices(SCHEDULER, work_for_one_slice)


def work_for_one_slice(action: UUID) -> bool | timedelta:
    """Works on an action until it or the slice ends. Returns whether more is left to do, or, if another
    worker works on it, how long to leave it to that worker."""
    end = time.monotonic() + SLICE_SECONDS
    try:
        return not process_bulk_action(action, lambda: stopping.is_set() or time.monotonic() >= end, wake)
    except InUse:
        return IN_USE_WAIT


BULK_WORKERS = WorkThreads("bulk actions", ACTIONS_AT_ONCE, work_on_bulk_actions)
