"""What workers do: a task takes an id and calls one service. Doing one twice, or never, costs nothing:
the database says what is to be done, and the sweep wakes workers for what was left.
"""

import logging
import threading
import time
from contextlib import nullcontext
from uuid import UUID

from django.conf import settings
from kombu.exceptions import OperationalError

from historyapp.celery import app
from historyapp.models import Worker
from historyapp.services.compression.automatic import compress_if_due, due_sessions
from historyapp.services.compression.items import runs_left
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

stopping = threading.Event()
"""Set when this process's worker is to end: tasks then begin nothing more."""
MOST_HANDS = 4
"""Workers that share one run."""
MOST_PASSED_ON, PASS_SECONDS = 20, 0.1
"""How often, and after how long, a message goes back into the queue that another worker should have."""
TURN_SECONDS = 20.0
"""After which a task makes room, where a run waits: else a long run would keep all others from beginning."""
crowded = threading.Event()
"""Set while there is a run that nobody is at work on."""


_at_work: set[UUID] = set()
"""Runs that this process is at work on."""
_changing = threading.Lock()


@app.task(name="compress")
def compress(run: str, passed_on: int = 0) -> None:
    """Works on a run until nothing of it is left; where other runs wait, in turns.

    A process takes one hand in a run. What reaches it besides is passed on, for another worker to take it.
    """
    id = UUID(run)
    with _changing:
        ours = id not in _at_work
        _at_work.add(id)
    if not ours:
        if passed_on < MOST_PASSED_ON and Worker.objects.alive().count() > 1:
            compress.apply_async((run, passed_on + 1), countdown=PASS_SECONDS)
        return
    end = time.monotonic() + TURN_SECONDS

    def is_over() -> bool:
        return stopping.is_set() or (crowded.is_set() and time.monotonic() >= end)

    # Imported here, since spaCy and the model SDKs are for workers only.
    from historyapp.services.compression.run import work_on

    try:
        work_on(id, is_over)
    finally:
        with _changing:
            _at_work.discard(id)
    if not stopping.is_set() and (is_over() or id in runs_left()):
        wake(id, hands=1)  # in the queue, behind those that wait


def wake(run: UUID, hands: int = MOST_HANDS) -> None:
    """Calls workers to a run. Without a broker they find it at their next sweep."""
    one_commit = nullcontext() if settings.REDIS_URL else writing()
    try:
        with one_commit:
            for _ in range(hands):
                compress.delay(str(run))
    except (OperationalError, OSError) as error:
        log.warning("The broker cannot be reached; the run %s waits for the next sweep: %s", run, error)


def sweep() -> None:
    """Calls workers to every run that nobody is at work on."""
    for run in runs_left():
        wake(run)


def is_busy() -> bool:
    """Whether this process is at work on a run, or one waits."""
    return bool(_at_work) or crowded.is_set()


def look_for_waiting() -> None:
    """Sees whether there are runs that nobody is at work on."""
    if runs_left():
        crowded.set()
    else:
        crowded.clear()


def look_for_due() -> None:
    """Starts the runs that sessions' settings want.

    No task does it: while all are busy, a message for each look and session would pile up.
    """
    for session in due_sessions():
        run = compress_if_due(session)
        if run is not None:
            wake(run.pk)
