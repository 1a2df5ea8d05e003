"""Model calls are carried out by a process of their own, so that nothing that a provider sends can stop the
web process: it only passes the responses on."""

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from historyapp.child_on_demand import ChildEnded, ChildOnDemand
from historyapp.front.large_requests import MAX_KEPT_MEMORY
from historyapp.front.outbox import ClientGone, Outbox
from historyapp.front.process_messages import END, FAILED, Message, sendable
from historyapp.processes import CANCEL_SECONDS
from historyapp.wire.problems import ServerFailed, ServerUnavailable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from historyapp.child import Child

MODULE = "historyapp.front.model_call_process"
ENDED = "The process that carried out the model call has ended. Look into the session before you repeat it."
FAILURE = "The model call failed. Look into the session before you repeat it."
STOPPED = (
    "The server has stopped before the model call ended. Its response is not recorded, but may be billed. "
    "Repeat the request."
)
NOT_STARTED = "The model call could not be started. Try again."


class ModelCallProcess:
    """The process. It starts with the first model call, and ends after ``idle_seconds`` without one.

    If it has more than ``MAX_KEPT_MEMORY`` bytes of memory after a model call, it gets no further ones, and
    ends when all others have ended. Until then no other process is retired: each has limits of its own for
    the memory of contexts and responses, so there are at most two.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._process = ChildOnDemand(MODULE, idle_seconds)
        self._retired: Child | None = None
        self._lock = threading.Lock()
        """Protects the other fields."""
        self._pipes: set[Connection] = set()
        """Of the running model calls."""
        self._is_stopping = False

    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        """Sends a model call, and yields the messages about it until its end.

        Raises:
            ClientGone: when the client closes its connection. The model call is then cancelled.
            ServerUnavailable: when it cannot be started, or the server stops.
            ServerFailed: when it failed, or the process has ended.
        """
        child, pipe = self._begin(environ, outbox, waited)
        with closing(pipe), self._running(pipe), outbox.when_abandoned(_shut(pipe)):
            kind = ""
            while kind != END:
                try:
                    kind, content = pipe.recv()
                except (EOFError, OSError):
                    if outbox.abandoned:
                        raise ClientGone from None
                    if self._is_stopping:
                        raise ServerUnavailable(STOPPED, retry_after=5) from None
                    raise ServerFailed(ENDED) from None
                if kind == FAILED:
                    raise ServerFailed(FAILURE)
                yield kind, content
        if child.memory() > MAX_KEPT_MEMORY:
            self._retire(child)

    @contextmanager
    def _running(self, pipe: "Connection") -> Iterator[None]:
        with self._lock:
            self._pipes.add(pipe)
        if self._is_stopping:
            _shut(pipe)()
        try:
            yield
        finally:
            with self._lock:
                self._pipes.discard(pipe)

    def cancel(self) -> None:
        """Cancels all model calls, and from now on every one that starts, because the server stops."""
        with self._lock:
            self._is_stopping = True
            for pipe in self._pipes:
                _shut(pipe)()

    def end(self) -> None:
        """Waits until the cancelled model calls have ended, and their processes with them."""
        if (child := self._process.child) is not None:
            self._process.retire(child)
        until = time.monotonic() + CANCEL_SECONDS
        for ending in filter(None, (child, self._retired)):
            ending.has_ended(max(0.0, until - time.monotonic()))

    def _retire(self, child: "Child") -> None:
        with self._lock:
            if self._retired is None or self._retired.has_ended(0):
                self._retired = child
                self._process.retire(child)

    def _begin(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> tuple["Child", "Connection"]:
        """Sends a model call, if necessary to a new process. Returns the process and the pipe for the
        messages about the call."""
        body = environ["wsgi.input"]
        body.seek(0)
        request = sendable(environ), body.read(), outbox.client.owner, waited
        try:
            return self._process.send(partial(self._send, request))
        except (ChildEnded, OSError):
            raise ServerUnavailable(NOT_STARTED, retry_after=1) from None

    def _send(self, request: object, child: "Child") -> tuple["Child", "Connection"]:
        from multiprocessing.connection import Connection

        try:
            own_end, other_end = socket.socketpair()
        except OSError:  # too many open files: the process can go on
            raise ServerUnavailable(NOT_STARTED, retry_after=1) from None
        pipe = Connection(own_end.detach())
        try:
            with other_end, self._process.lock:
                child.send_with_descriptor(request, other_end.fileno())
            pipe.recv()
        except (EOFError, OSError):
            pipe.close()
            if child.pipe.closed or child.has_ended():  # closed: another thread has just retired the process
                raise
            raise ServerUnavailable(NOT_STARTED, retry_after=1) from None
        return child, pipe


def _shut(pipe: "Connection") -> Callable[[], None]:
    """Returns a function that ends the pipe of a model call, so that the threads at both ends notice."""

    from historyapp.child import socket_of

    def shut() -> None:
        with suppress(OSError), socket_of(pipe) as own_end:
            own_end.shutdown(socket.SHUT_RDWR)

    return shut
