"""Running a Celery worker in this process: threads, and a clock that finds work whose message was lost."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat
from typing import Any
from uuid import UUID

from celery.worker import state
from django.conf import settings
from uuid_utils.compat import uuid7

from historyapp.celery import app
from historyapp.clock import run_clock
from historyapp.core.language import load_language
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from historyapp.tasks import is_busy, look_for_due, look_for_waiting, stopping, sweep

log = logging.getLogger(__name__)

TASKS_AT_ONCE = 4
NICENESS = 10
"""Agents and people go first."""
GRACE = 10
"""Seconds that what is under way gets to finish when a worker is to end."""
RESTART_SECONDS = 5
"""Before a worker starts again that has stopped by itself, as when its queue was lost."""


def prepare() -> None:
    """Loads what the first run would wait for: the vocabulary, and the language of most sessions."""
    import historyapp.services.compression.run  # noqa: F401

    count_tokens("")
    load_language(SessionSettings().spacy_language_model)


def run_worker(worker_id: UUID | None = None, idle_seconds: float | None = None) -> None:
    """Works until :func:`stop_worker` is called, from a signal handler or another thread, or it was idle."""
    os.nice(NICENESS)  # on Linux that of this thread and those that it starts
    _remove_file_queue()
    look = _look(idle_seconds)
    clock = threading.Thread(target=run_clock, args=(worker_id or uuid7(), look, stopping), daemon=True)
    clock.start()
    while not stopping.is_set():
        _new_worker().start()  # ends when it is stopped and what is under way has ended
        if not stopping.is_set():
            log.error("The worker has stopped; it starts again in %s seconds.", RESTART_SECONDS)
            stopping.wait(RESTART_SECONDS)
    clock.join()


def _remove_file_queue() -> None:
    """Removes the files in which older versions kept the queue. The first sweep finds the runs."""
    folder = settings.PLAYHEAD_HOME / "queue"
    for name, pattern in (("messages", "*.msg"), ("control", "*.exchange")):
        with suppress(OSError):  # as a rule it is not there
            for file in (folder / name).glob(pattern):
                file.unlink()
            (folder / name).rmdir()
    with suppress(OSError):  # what somebody else put there stays
        folder.rmdir()


def _new_worker() -> Any:
    return app.WorkController(
        pool_cls="threads",
        concurrency=TASKS_AT_ONCE,
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        quiet=True,
    )


def stop_worker() -> None:
    """Lets the worker end: nothing more is begun, what is under way is finished."""
    stopping.set()
    state.should_stop = 0  # type: ignore[assignment]  # an exit code; its stubs know null only


def leave(code: int = 0) -> None:
    """Ends the process although calls are under way: Python itself would wait for their threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def leave_in_time() -> None:
    """As :func:`leave`, when ``GRACE`` is over."""
    timer = threading.Timer(GRACE, leave)
    timer.daemon = True
    timer.start()


def _look(idle_seconds: float | None) -> Callable[[], None]:
    """What a worker does every second: it looks for due sessions and waiting runs, and sweeps every minute.

    After ``idle_seconds`` without work it ends.
    """
    # The second sweep comes when the claims of a killed worker have expired.
    waits = chain([settings.PLAYHEAD_CLAIM_SECONDS + 1], repeat(settings.PLAYHEAD_SWEEP_SECONDS))
    next_sweep = 0.0
    last_work = time.monotonic()

    def look() -> None:
        nonlocal next_sweep, last_work
        if time.monotonic() >= next_sweep:
            sweep()
            next_sweep = time.monotonic() + next(waits)
        look_for_due()
        look_for_waiting()
        if is_busy():
            last_work = time.monotonic()
        elif idle_seconds is not None and time.monotonic() >= last_work + idle_seconds:
            stop_worker()

    return look
