"""A child process that is started when it is needed."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from historyapp.child import Child

T = TypeVar("T")


class ChildEnded(Exception):
    """A process ended while it received a request, and so did the next one."""


class ChildOnDemand:
    """Starts a process with the first request, and another one when it has ended. Threads may share it.

    Args:
        module: the module that the process runs.
        idle_seconds: the process ends after this time without a request.
    """

    def __init__(self, module: str, idle_seconds: float) -> None:
        self._arguments = module, str(idle_seconds)
        self.child: Child | None = None
        """The process, if one was started. It may have ended."""
        self.lock = threading.Lock()
        """Protects ``child``, and writes of threads that share its pipe."""

    def send(self, request: Callable[["Child"], T]) -> T:
        """Sends a request to the process or, if that has ended because it was idle, to a new one.

        Args:
            request: returns when the process has begun with the request, and raises EOFError or OSError if it
                has ended.

        Raises:
            OSError: when no process can be started.
            ChildEnded: when the second process has ended too.
        """
        for _ in range(2):
            child = self._running()
            with suppress(EOFError, OSError):
                return request(child)
            self.retire(child)
        raise ChildEnded

    def _running(self) -> "Child":
        from historyapp.child import Child  # here, because most servers need no process

        with self.lock:
            if self.child is None:
                self.child = Child(*self._arguments)
            return self.child

    def retire(self, child: "Child") -> None:
        """Sends nothing more to a process, which ends when it has carried out its requests."""
        with self.lock:
            if self.child is child:
                self.child = None
                child.pipe.close()

    def stop(self) -> None:
        """Kills the process. The next request starts another one."""
        if (child := self.child) is not None:
            self.retire(child)
            child.stop()
