"""Reads that take much processor time start again in another process, which can be killed.

Python runs one thread at a time, and nothing can stop a thread from outside: a read that computes for a
minute would slow all others for a minute, also after its client has left. So the event loop looks at the
processor time of the threads that carry out a read. After :data:`SECONDS` it raises
:class:`~historyapp.models.large_reads.LargeRead` in the thread, as if the read had noticed itself that it is
too large, and :mod:`historyapp.front.large_requests` carries it out from the beginning.

The error comes between two instructions of the thread, as ``KeyboardInterrupt`` does in a main thread. That
is safe only where the thread computes. So it is raised while the thread is in a function of :data:`COMPUTING`
that no function of :data:`KEPT_WHOLE` has called; otherwise the next check tries again. What the read has
changed is rolled back with its transaction. A request that has written is not interrupted.
"""

import ctypes
import sys
import threading
import time
from asyncio import AbstractEventLoop
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import django
import pygments
from django.db import connections

import historyapp
from historyapp.models.large_reads import LargeRead, RequestRead
from historyapp.models.vendor import on_sqlite

SECONDS = 2.0
"""The processor time of a read in a thread of the web process."""
TICK = 0.25
"""Seconds between two checks."""
AGAIN_SECONDS = 0.5
"""A thread is interrupted again after this processor time, in case a function has caught the first error."""
REMEMBERED_SECONDS = 60.0
"""For so long after a client's read has moved, its reads of the same path go to another process at once."""
MAX_REMEMBERED = 1000
"""The number of such paths. The oldest is forgotten for another one."""

_FOLDERS = {
    Path(historyapp.__file__).parent: ("api/", "core/", "models/", "services/", "wire/"),
    Path(historyapp.__file__).parent.parent: ("dashboard/",),
    Path(django.__file__).parent: ("db/", "template/", "utils/"),
    Path(pygments.__file__).parent.parent: ("markdown_it/", "mdurl/", "ninja/", "pygments/", "rich/"),
    Path(threading.__file__).parent: ("difflib.py", "html/", "json/"),
}
COMPUTING = tuple(f"{folder}/{name}" for folder, names in _FOLDERS.items() for name in names)
"""Folders and files whose functions hold no lock while they compute, or release it if they fail."""
KEPT_WHOLE = (
    "importlib",
    "/logging/",
    "/threading.py",
    "/django/db/transaction.py",
    "/historyapp/front/",
    "/historyapp/redis_values.py",
    "/historyapp/services/transactions.py",
)
"""Parts of the names of files whose functions must not be interrupted, nor what they call: transactions,
locks and imports, which would stay half done."""
_set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
"""Sets the error that a thread raises before its next instruction. Nothing else in Python does this. The call
holds the interpreter."""
_LARGE_READ = ctypes.py_object(LargeRead)

ReadOfClient = tuple[bytes, str]
"""A client's credential and the path that it reads, for a share link with the query: all its readers have one
credential."""


@dataclass(slots=True, eq=False)
class Watched:
    """A read that a thread carries out."""

    read: RequestRead
    thread: int
    clock: int
    """The clock of the thread's processor time."""
    until: float
    """The processor time of the thread at which it is interrupted."""
    database: Any
    """Django's connection of the thread."""
    is_interrupted: bool = False


class LongReads:
    """Watches the reads of the threads of this process."""

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}
        """By thread."""
        self._lock = threading.Lock()
        self._has_timer = False
        self._moved: dict[ReadOfClient, tuple[float, bytes]] = {}
        """The monotonic time of the last move, and the project. The oldest first."""

    def start_checks(self, loop: AbstractEventLoop) -> None:
        """Checks the reads from now on. Called in the event loop, before each read."""
        if not self._has_timer:
            self._has_timer = True
            loop.call_later(TICK, self._check_again, loop)

    def _check_again(self, loop: AbstractEventLoop) -> None:
        loop.call_later(TICK, self._check_again, loop)  # first, so that an error does not end the checks
        self._check()

    def owner_of_moved(self, read: ReadOfClient) -> bytes | None:
        """The project that was read the last time, if the read moved a short time ago."""
        moved, owner = self._moved.get(read, (0.0, None))
        return owner if owner and time.monotonic() < moved + REMEMBERED_SECONDS else None

    def begin(self, read: RequestRead) -> Watched | None:
        """Watches this thread until :meth:`end`. Returns None if the system has no clock for it (macOS)."""
        if not hasattr(time, "pthread_getcpuclockid"):
            return None
        thread = threading.get_ident()
        clock = time.pthread_getcpuclockid(thread)
        until = time.clock_gettime(clock) + SECONDS
        watched = Watched(read, thread, clock, until, connections["default"])
        self._watched[thread] = watched
        return watched

    def end(self, watched: Watched) -> None:
        """Ends the watch. The thread is not interrupted afterwards.

        Raises:
            LargeRead: when the thread was interrupted just now, perhaps before the end.
        """
        with self._lock:
            self._watched.pop(watched.thread, None)
            if watched.is_interrupted:
                _set_error(ctypes.c_ulong(watched.thread), ctypes.py_object())  # none

    def end_interrupted(self, watched: Watched, read: ReadOfClient) -> None:
        """Ends the watch of a read that moves. The next interruption would be :data:`AGAIN_SECONDS` later."""
        self.end(watched)
        if watched.is_interrupted:
            watched.database.in_atomic_block = False  # it may have been interrupted between two states
            watched.database.close()
            with self._lock:
                self._moved.pop(read, None)
                self._moved[read] = time.monotonic(), watched.read.owner
                while len(self._moved) > MAX_REMEMBERED:
                    del self._moved[next(iter(self._moved))]

    def _check(self) -> None:
        """Interrupts the reads that have taken too long."""
        with self._lock:
            for watched in list(self._watched.values()):
                used = time.clock_gettime(watched.clock)
                if used <= watched.until or (frame := _computing(watched)) is None:
                    continue
                raise_in_thread = partial(_set_error, ctypes.c_ulong(watched.thread), _LARGE_READ)
                if sys._current_frames().get(watched.thread) is frame:  # it is still in this function
                    raise_in_thread()
                    watched.until, watched.is_interrupted = used + AGAIN_SECONDS, True
                    if on_sqlite():
                        with suppress(Exception):  # no connection, or one that has just been closed
                            watched.database.connection.interrupt()


def _computing(watched: Watched) -> FrameType | None:
    """The function that the thread carries out, if the read can move, the function computes, and nothing that
    calls it must be done as a whole."""
    if not watched.read.may_move or watched.database.in_atomic_block:
        return None
    innermost: FrameType | None = sys._current_frames().get(watched.thread)
    if innermost is None or not innermost.f_code.co_filename.startswith(COMPUTING):
        return None
    frame: FrameType | None = innermost
    while frame is not None and not _begins_request(frame):
        name = frame.f_code.co_filename
        if any(part in name for part in KEPT_WHOLE):
            return None
        frame = frame.f_back
    return innermost


def _begins_request(frame: FrameType) -> bool:
    """Whether the frame is the one that calls the WSGI application. Those below it belong to the pool."""
    return frame.f_code.co_filename.endswith("/historyapp/front/request_runner.py")
