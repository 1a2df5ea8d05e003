"""Running a Celery worker in this process: threads, and a clock that looks for work the broker forgot."""

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

from celery.worker import state
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from uuid_utils.compat import uuid7

from historyapp.celery import app
from historyapp.core.language import load_language
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from historyapp.models.workers import BEAT_SECONDS
from historyapp.services.workers import forget_worker, note_worker
from historyapp.tasks import look_for_due, look_for_waiting, stopping, sweep

log = logging.getLogger(__name__)

TASKS_AT_ONCE = 4
NICENESS = 10
"""Agents and people go first."""
LOOK_SECONDS = 1.0
"""Between two looks for sessions that are due, and for runs that wait."""
GRACE = 10
"""Seconds that what is under way gets to finish when a worker is to end."""
RESTART_SECONDS = 5
"""Before a worker starts again that has stopped by itself, as when its queue was lost."""


def prepare() -> None:
    """Loads what the first run would wait for: the vocabulary, and the language of most sessions."""
    import historyapp.services.compression.working  # noqa: F401

    count_tokens("")
    load_language(SessionSettings().spacy_language_model)


def run_worker() -> None:
    """Works until :func:`stop_worker` is called, from a signal handler or another thread."""
    os.nice(NICENESS)  # on Linux that of this thread and those that it starts
    _remove_file_queue()
    clock = threading.Thread(target=_tick, name="clock", daemon=True)
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


class BackgroundWorker:
    """The worker of a process that does other things too."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=run_worker, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> bool:
        """Waits for what is under way, up to ``GRACE``; the rest is taken up at the next start.

        Returns whether all has ended. Where it has not, the process must be left with :func:`leave`.
        """
        if self._thread.is_alive():
            stop_worker()
            self._thread.join(GRACE)
        return not self._thread.is_alive()


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


def _tick() -> None:
    """Looks for due sessions and waiting runs every second; for runs that were left at the start and every
    minute. Every few seconds it says that this worker lives.
    """
    me = uuid7()
    next_beat = 0.0
    # The second look comes when what a killed worker had claimed is free again.
    waits = chain([settings.PLAYHEAD_CLAIM_SECONDS + 1], repeat(settings.PLAYHEAD_SWEEP_SECONDS))
    next_sweep = 0.0
    told = ""  # the same problem is not told every second
    while not stopping.is_set():
        try:
            if time.monotonic() >= next_beat:
                note_worker(me)
                next_beat = time.monotonic() + BEAT_SECONDS
            if time.monotonic() >= next_sweep:
                sweep()
                next_sweep = time.monotonic() + next(waits)
            look_for_due()
            look_for_waiting()
            told = ""
        except (DatabaseError, InterfaceError) as error:
            if str(error) != told:
                told = str(error)
                log.warning("The worker cannot ask the database what is to be done: %s", error)
            connection.close()
        except Exception:  # without its clock a worker would be taken for dead and sweep nothing
            log.exception("The worker's clock goes on after an unexpected error")
        stopping.wait(LOOK_SECONDS)
    with suppress(DatabaseError, InterfaceError):  # its silence will tell
        forget_worker(me)
    connection.close()
