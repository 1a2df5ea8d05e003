"""Which of the writes that give way is next, see :func:`historyapp.services.transactions.giving_way`."""

import threading
from itertools import count
from typing import Literal, NamedTuple
from uuid import UUID

MAX_REMEMBERED = 1_000
"""The maximum number of projects whose last turns are known. Those with older turns come first."""

WriteKind = Literal["webhooks", "runs", "other"]
"""Webhooks and runs write little and often, and others wait for their results. So they do not wait for the
pauses of other work."""


class WriteOwner(NamedTuple):
    """For whom a thread writes."""

    kind: WriteKind
    project: UUID | None = None
    """None: work for several projects, or a request."""


NO_OWNER = WriteOwner("other")


class _Waiting(NamedTuple):
    project: UUID | None
    number: int
    """Later threads have higher numbers."""
    turn: threading.Event


class WriteTurns:
    """Lets one thread of a kind of work write at a time.

    The next turn belongs to the project whose last turn is the longest ago; of its threads, to the one that
    has waited longest. So however many threads work for a project, those of another one wait for few turns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: list[_Waiting] = []
        self._last_turns: dict[UUID | None, int] = {}
        """The numbers of the projects' last turns, in their order."""
        self._numbers = count(1)

    def acquire(self, project: UUID | None, timeout: float) -> bool:
        """Waits for a turn. Returns False if there was none within ``timeout`` seconds."""
        with self._lock:
            if not self._is_taken:
                self._begin_turn(project)
                return True
            waiting = _Waiting(project, next(self._numbers), threading.Event())
            self._waiting.append(waiting)
        try:
            if waiting.turn.wait(timeout):
                return True
        except BaseException:  # Ctrl-C in a command: its other threads must not wait for this one
            if not self._leave(waiting):
                self.release()
            raise
        return not self._leave(waiting)

    def _leave(self, waiting: _Waiting) -> bool:
        """Ends a wait. Returns False if the turn came at the end of its time."""
        with self._lock:
            if waiting.turn.is_set():
                return False
            self._waiting.remove(waiting)
            return True

    def release(self) -> None:
        """Ends the turn, and gives it to the next thread."""
        with self._lock:
            self._is_taken = False
            if self._waiting:
                next_thread = min(self._waiting, key=self._order)
                self._waiting.remove(next_thread)
                self._begin_turn(next_thread.project)
                next_thread.turn.set()

    def _order(self, waiting: _Waiting) -> tuple[int, int]:
        return self._last_turns.get(waiting.project, 0), waiting.number

    def _begin_turn(self, project: UUID | None) -> None:
        self._is_taken = True
        self._last_turns.pop(project, None)
        self._last_turns[project] = next(self._numbers)
        if len(self._last_turns) > MAX_REMEMBERED:
            del self._last_turns[next(iter(self._last_turns))]
