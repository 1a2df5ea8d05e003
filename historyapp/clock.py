"""A worker's clock: it registers the running worker, and looks every second for work that has no message."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from historyapp.core.process_memory import empty_unused_caches, return_free_memory, unmap_code
from historyapp.core.vocabularies import release_unused
from historyapp.duties import Duties
from historyapp.lag import has_messages
from historyapp.models import BulkAction, Evaluation, Webhook
from historyapp.models.database_clock import database_now
from historyapp.models.workers import BEAT_SECONDS
from historyapp.services.compression.start import due_sessions, unclaimed_runs
from historyapp.services.deletions import INTERRUPTED_AFTER, hidden_sessions
from historyapp.services.figures.feed import cpu_time_limit, follow_changes
from historyapp.services.figures.run_figures import sessions_to_count
from historyapp.services.outcomes import has_stale_sessions
from historyapp.services.search.index import projects_to_index
from historyapp.services.transactions import waiting_briefly
from historyapp.services.workers import record_worker, remove_worker
from historyapp.wire.problems import ServerUnavailable

LOOK_SECONDS = 1.0
"""Seconds between two checks for work."""
ROW_LOCK_SECONDS = 0.3
"""The clock's writes wait at most this many seconds for each locked row, and are tried again later."""
BUSY_SHARE = 0.1
"""A process that uses less of a core than this is idle."""
COUNT_SECONDS = 15.0
"""Seconds between two searches for sessions whose figures a worker should count in advance."""
FOLLOW_SECONDS = 0.1
"""Seconds of processor time for one update of projects' figures. A worker does the remaining work."""
REQUEST_SECONDS = 300.0
"""Seconds between two requests of a worker for the same session, because one that fails stays uncounted."""


def run_clock(worker_id: UUID, look: Callable[[], None], stopping: threading.Event) -> None:
    """Calls ``look`` every second until ``stopping`` is set. Logs errors, but a repeated error only once."""
    next_beat = 0.0
    duties = Duties()

    def beat() -> None:
        nonlocal next_beat
        if time.monotonic() >= next_beat:
            record_worker(worker_id)
            next_beat = time.monotonic() + BEAT_SECONDS

    while not stopping.is_set():
        with short_row_locks():
            duties.attempt("register the worker", beat)
            duties.attempt("look for work", look)
        stopping.wait(LOOK_SECONDS)
    # If this fails, the registration expires after a minute.
    with suppress(DatabaseError, InterfaceError, ServerUnavailable):
        remove_worker(worker_id)
    connection.close()


def short_row_locks() -> AbstractContextManager[None]:
    """On PostgreSQL a lock concerns a few rows, for which the other work must not wait."""
    return waiting_briefly(ROW_LOCK_SECONDS) if connection.vendor == "postgresql" else nullcontext()


class IdleMemory:
    """Releases memory that the process has not used for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._checked_at, self._processor_time = time.monotonic(), time.process_time()
        self._next_unmap = self._checked_at + seconds

    def release(self) -> None:
        """Releases memory that is unused. Call it every second."""
        emptied = empty_unused_caches(self._seconds)
        if release_unused(self._seconds) or emptied:
            return_free_memory()
        now, processor_time = time.monotonic(), time.process_time()
        if processor_time - self._processor_time > BUSY_SHARE * (now - self._checked_at):
            self._next_unmap = now + self._seconds
        self._checked_at, self._processor_time = now, processor_time
        if now >= self._next_unmap:
            self._next_unmap = now + self._seconds
            unmap_code()


def watch_for_work(request_worker: Callable[[], None], worker_id: str) -> None:
    """Requests a worker process when there is work; see :mod:`historyapp.supervisor`.

    Registers the worker even while no worker process runs, because it can be started at any time. Also
    updates projects' figures, because starting a worker for each append would cost more. Releases memory if
    the web process is idle.
    """

    idle_memory = IdleMemory(settings.PLAYHEAD_IDLE_SECONDS)
    next_count = 0.0
    requested_at: dict[UUID, float] = {}

    def is_behind() -> bool:
        nonlocal next_count, requested_at
        now = time.monotonic()
        if now < next_count:
            return False
        next_count = now + COUNT_SECONDS
        requested_at = {id: at for id, at in requested_at.items() if now - at < REQUEST_SECONDS}
        session_ids = [id for id in sessions_to_count() if id not in requested_at]
        requested_at.update(dict.fromkeys(session_ids, now))
        return bool(session_ids)

    duties = Duties()
    searches: dict[str, Callable[[], object]] = {
        "find due webhooks": lambda: Webhook.objects.due(database_now()),
        "find waiting runs": unclaimed_runs,
        "find due sessions": due_sessions,
        "find missing outcomes": has_stale_sessions,
        "find figures to count ahead": is_behind,
        "find projects to index": projects_to_index,
        "find messages": has_messages,
        "find bulk actions": BulkAction.objects.active().exists,
        "find evaluations": Evaluation.objects.active().exists,
        "find interrupted deletions": lambda: hidden_sessions(INTERRUPTED_AFTER),
        "count figures": lambda: follow_changes(cpu_time_limit(FOLLOW_SECONDS)),
    }

    def look() -> None:
        duties.attempt("release memory", idle_memory.release)
        # Searches after the first one that finds work are left out, except the last: it does work itself.
        *first, last = searches.items()
        if any(duties.attempt(*search) for search in first):
            request_worker()
        if duties.attempt(*last):
            request_worker()

    run_clock(UUID(worker_id), look, threading.Event())
