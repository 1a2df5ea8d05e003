"""Whose turn it is in a process that writes summaries. It writes one at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition
from uuid import UUID

LOOK_SECONDS = 0.1
"""How often a thread that waits looks at the turn that it waits for."""
MAX_PROJECTS = 1000
"""The projects whose last turns are remembered."""


class WriterTurns:
    """Gives turns to threads, one at a time. Next is the project whose last turn is the longest ago."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._numbers = count(1)
        self._waiting: dict[int, UUID] = {}
        """The projects of the threads that wait, by the threads' numbers."""
        self._last_turns: dict[UUID, int] = {}
        """The number of each project's last turn, in ascending order."""
        self._project: UUID | None = None
        """The project whose turn it is."""
        self._last_end = time.monotonic()

    @contextmanager
    def turn(self, project: UUID, look: Callable[[UUID | None], None]) -> Iterator[None]:
        """Waits for a turn, which ends with the block.

        Args:
            look: called every tenth of a second while the thread waits, with the project whose turn it is.
                That turn does not end meanwhile. If it raises an error, the thread gets no turn.
        """
        self._take(project, look)
        try:
            yield
        finally:
            with self._changed:
                self._project, self._last_end = None, time.monotonic()
                self._changed.notify_all()

    def unused_seconds(self) -> float:
        """Seconds since the last turn; 0 if there is one or a thread waits for one."""
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
            self._last_turns.pop(project, None)
            self._last_turns[project] = next(self._numbers)
            if len(self._last_turns) > MAX_PROJECTS:
                del self._last_turns[next(iter(self._last_turns))]

    def _next(self) -> int:
        return min(self._waiting, key=lambda number: (self._last_turns.get(self._waiting[number], 0), number))
