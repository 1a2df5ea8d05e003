"""Threads of a worker process for one kind of work, beside the threads for tasks."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from historyapp.core.call_stack import with_room_for_calls
from historyapp.services.connections import ConnectionsInUse, short_connection
from historyapp.services.fair_scheduler import FairScheduler
from historyapp.services.faults import fault_of
from historyapp.services.transactions import giving_way
from historyapp.services.write_turns import WriteKind
from historyapp.wire.problems import DatabaseReadOnly, DatabaseUnreachable, StorageFailed

log = logging.getLogger(__name__)

_broken: dict[UUID, float] = {}
"""Work whose connection to the database broke, and how many seconds it waited after that."""
stopping = threading.Event()
"""Set when this process's worker must end. Threads and tasks then start no more work."""


class WorkThreads:
    """At most ``size`` threads that do the same work.

    Args:
        name: what they work on, in the plural.
        work: the work of a thread. It ends when nothing is left to do.
        kind: what its writes count as when they wait for other ones.
    """

    def __init__(self, name: str, size: int, work: Callable[[], object], kind: WriteKind = "other") -> None:
        self.size = size
        self._name = name
        self._work = work
        self._kind: WriteKind = kind
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._working: set[Future[None]] = set()
        self._lock = threading.Lock()

    def start(self) -> bool:
        """Lets one more thread work. Returns False if all threads do so already."""
        with self._lock:
            self._working = {thread for thread in self._working if not thread.done()}
            if stopping.is_set() or len(self._working) >= self.size:
                return False
            self._working.add(self._pool.submit(self._run))
            return True

    def wait(self) -> None:
        """Waits until the threads have ended, after :data:`stopping` was set."""
        with self._lock:
            threads = set(self._working)
        wait_for(threads)

    @with_room_for_calls
    def _run(self) -> None:
        try:
            with giving_way(self._kind), short_connection():
                self._work()
        except (DatabaseError, InterfaceError, StorageFailed, ConnectionsInUse) as error:
            log.warning("The %s wait until the database can be used: %s", self._name, str(error).strip())
        except Exception:  # nobody reads the thread's result
            log.exception("A thread for %s has ended.", self._name)


def work_in_slices(scheduler: FairScheduler, work_for_one_slice: Callable[[UUID], bool | timedelta]) -> None:
    """Works until nothing waits. After an error in a piece of work, that piece waits for the next sweep; if
    the connection to the database broke or its server accepts no writes, for a second, and longer if that
    happens again.

    Args:
        work_for_one_slice: returns whether other work of the same project comes first now, or how long this
            work must wait.
    """
    while not stopping.is_set() and (id := scheduler.take()) is not None:
        wait: timedelta | None = timedelta(seconds=settings.PLAYHEAD_SWEEP_SECONDS)
        try:
            with giving_way(project=scheduler.projects[id]):
                ended = work_for_one_slice(id)
            wait = ended if isinstance(ended, timedelta) else timedelta(0) if ended else None
            _broken.pop(id, None)
        except Exception as error:
            if isinstance(fault_of(error), (DatabaseUnreachable, DatabaseReadOnly)):
                # Work that makes PostgreSQL crash must not do so every second.
                _broken[id] = seconds = min(2 * _broken.get(id, 0.5), settings.PLAYHEAD_SWEEP_SECONDS)
                wait = timedelta(seconds=seconds)
            raise
        finally:
            scheduler.end(id, wait)
