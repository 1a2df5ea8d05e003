"""Chooses whose summary a process writes next. It writes one at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition
from uuid import UUID

LOOK_SECONDS = 0.1
"""How often a waiting thread checks the project that has the process."""
MAX_PROJECTS = 1000
"""The projects whose last use of the process is remembered."""


class WriterScheduler:
    """Gives the process to one thread at a time. Next is the project whose last use is the longest ago."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._numbers = count(1)
        self._waiting: dict[int, UUID] = {}
        """The projects of the threads that wait, by the threads' numbers."""
        self._last_uses: dict[UUID, int] = {}
        """The number of each project's last use, in ascending order."""
        self._project: UUID | None = None
        """The project that has the process."""
        self._last_end = time.monotonic()

    @contextmanager
    def exclusive(self, project: UUID, look: Callable[[UUID | None], None]) -> Iterator[None]:
        """Waits for the process, and has it until the block ends.

        Args:
            look: called every tenth of a second while the thread waits, with the project that has the
                process and keeps it meanwhile. If ``look`` raises an error, the thread stops waiting.
        """
        self._take(project, look)
        try:
            yield
        finally:
            with self._changed:
                self._project, self._last_end = None, time.monotonic()
                self._changed.notify_all()

    def unused_seconds(self) -> float:
        """Seconds since the last use; 0 while a thread has the process or waits for it."""
        with self._changed:
            is_used = self._project is not None or self._waiting
            return 0 if is_used else time.monotonic() - self._last_end

    def _take(self, project: UUID, look: Callable[[UUID | None], None]) -> None:
        number = next(self._numbers)
        with self._changed:
            self._waiting[number] = project
            try:
                while self._project is not None or self._next() != number:
                    if not self._changed.wait(LOOK_SECONDS):
                        look(self._project)
            except BaseException:
                self._changed.notify_all()  # it may have been the next one
                raise
            finally:
                del self._waiting[number]
            self._project = project
            self._last_uses.pop(project, None)
            self._last_uses[project] = next(self._numbers)
            if len(self._last_uses) > MAX_PROJECTS:
                del self._last_uses[next(iter(self._last_uses))]

    def _next(self) -> int:
        return min(self._waiting, key=lambda number: (self._last_uses.get(self._waiting[number], 0), number))
