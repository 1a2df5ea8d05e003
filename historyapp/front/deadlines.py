"""Time limits for clients that send a body or read a response."""

import asyncio
from dataclasses import dataclass

TICK = 0.25
"""Seconds between two checks. A task is cancelled up to this long after its limit."""


@dataclass(slots=True)
class ClientWait:
    """A task that waits for its client. ``expired`` is set before the task is cancelled."""

    task: "asyncio.Task[object]"
    deadline: float
    expired: bool = False


class Deadlines:
    """Cancels tasks that wait for longer than their limit.

    One check for all tasks costs less than a timer for each request, as ``asyncio.timeout`` would set.
    """

    def __init__(self) -> None:
        self._waits: dict[asyncio.Task[object], ClientWait] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stopping = False

    def begin(self, seconds: float) -> ClientWait:
        """Limits the time for which the current task waits for its client, until ``end``."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.call_later(TICK, self._check)
        task = asyncio.current_task()
        assert task
        wait = ClientWait(task, loop.time() + (0.0 if self.stopping else seconds))
        self._waits[task] = wait
        return wait

    def end(self, wait: ClientWait) -> None:
        self._waits.pop(wait.task, None)

    def stop(self) -> None:
        """Cancels all waiting tasks, and from now on every task that starts to wait."""
        self.stopping = True
        self._cancel(float("inf"))

    def _check(self) -> None:
        assert self._loop
        self._cancel(self._loop.time())
        self._loop.call_later(TICK, self._check)

    def _cancel(self, now: float) -> None:
        for wait in [wait for wait in self._waits.values() if wait.deadline < now]:
            del self._waits[wait.task]
            wait.expired = True
            wait.task.cancel()
