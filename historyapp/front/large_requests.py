"""Large requests are carried out by processes of their own.

One call of C code that parses, counts or formats a long text holds the interpreter, and all other requests of
the web process wait for it. It may also take twenty times the memory of the text. So a request that has a
long body, or reads many bytes, is carried out by another process. The process is killed if that takes too
much processor time or memory, and other requests go on meanwhile.
"""

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from historyapp import meters
from historyapp.child_on_demand import ChildEnded, ChildOnDemand
from historyapp.core.errors import Invalid, PlayheadError
from historyapp.front.outbox import Outbox
from historyapp.front.process_messages import (
    END,
    LENT,
    MAX_PART,
    RETURNED,
    WRITTEN,
    Message,
    max_processor_seconds,
    sendable,
)
from historyapp.wire.problems import ServerFailed, ServerUnavailable

if TYPE_CHECKING:
    from historyapp.child import Child

log = logging.getLogger(__name__)

MODULE = "historyapp.front.request_process"
ENDED = "The process that carried out the request has ended. Try again."
TAKEN = (
    "Another large request needed the process in which this one waited for its provider. Try again, or leave "
    "`count` out."
)
WRITTEN_ERROR = (
    "The request was stopped after it had stored something. Look into the session before you repeat it."
)
MAX_MEMORY = 1 << 30
"""A process with more bytes of memory is killed. An append of 31 MB with an emoji takes 700 MB."""
MAX_KEPT_MEMORY = 400 << 20
"""A process with more bytes of memory after a request is ended."""
PROCESSES = 2
"""The maximum number of processes. Each takes about 100 MB and one core while it works."""


class RequestProcess:
    """One process. It starts with the first request, and ends after ``idle_seconds`` without one."""

    def __init__(self, idle_seconds: float) -> None:
        self._process = ChildOnDemand(MODULE, idle_seconds)
        self._is_taken = False
        """Whether it was killed because another request needed it."""

    def carry_out(self, environ: dict[str, Any], waited: float) -> Generator[Message]:
        """Sends a request, and yields the messages about it until its end.

        Raises:
            Invalid: when it takes too much processor time or memory.
            ServerUnavailable: when another request needed the process.
            ServerFailed: when the process ended for another reason, or after it has written something.
        """
        self._is_taken = False
        try:
            child = self._process.send(partial(_send, environ, waited))
        except ChildEnded:
            raise _ended(ServerFailed(ENDED), has_written=False) from None
        kind, has_written = "", False
        with child.limited_memory(MAX_MEMORY) as is_too_large:
            while kind != END:
                try:
                    kind, content = child.pipe.recv()
                except (EOFError, OSError):
                    error = _end_error(child, environ, is_too_large(), self._is_taken)
                    raise _ended(error, has_written=has_written) from None
                has_written = has_written or kind == WRITTEN
                yield kind, content
        if child.memory() > MAX_KEPT_MEMORY:
            self.stop()

    @property
    def is_started(self) -> bool:
        """Whether the process was started and not stopped. It may have ended, because it was idle."""
        return self._process.child is not None

    def take(self) -> None:
        """Kills the process while another thread uses it, which must then call :meth:`stop`."""
        self._is_taken = True
        if (child := self._process.child) is not None:
            child.kill()

    def stop(self) -> None:
        self._process.stop()


class RequestProcesses:
    """The processes of a web server: at most ``PROCESSES``.

    A request that waits for the slow reader of its response, or for a model's provider, keeps its process,
    although other requests run meanwhile. If one of them needs the process, the waiting request ends.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._idle: list[RequestProcess] = []
        self._used: set[RequestProcess] = set()
        self._waiting: dict[RequestProcess, Callable[[], None]] = {}
        """The processes whose requests wait, the one that has waited longest first, each with a function that
        is called before the process is taken."""
        self._lock = threading.Lock()

    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        """As :meth:`RequestProcess.carry_out`, by an idle process. Closing the generator kills it."""
        with self.process() as process, ExitStack() as lent:
            lend = partial(self.lending_process, process, outbox.lending_thread)
            outbox.lending_thread = partial(lend, outbox.abort)
            for kind, content in process.carry_out(environ, waited):
                if kind == LENT:
                    lent.enter_context(lend(lambda: None))
                elif kind == RETURNED:
                    lent.close()
                else:
                    yield kind, content

    def cancel(self) -> None:
        """Does nothing: the processes end with the server, and their requests have reserved nothing."""

    def end(self) -> None:
        """Does nothing: no request was cancelled."""

    @contextmanager
    def process(self) -> Iterator[RequestProcess]:
        """Yields an idle process. It is killed if the block raises, because it may still work then."""
        with self._lock:
            if len(self._used) >= PROCESSES and self._waiting:
                self._take_longest_waiting()
            process = self._idle.pop() if self._idle else RequestProcess(self._idle_seconds)
            self._used.add(process)
        try:
            yield process
        except BaseException:
            with self._lock:
                self._used.discard(process)
            process.stop()
            raise
        with self._lock:
            self._used.discard(process)
            if process.is_started:  # otherwise the next request would start it although another one is idle
                self._idle.append(process)

    @contextmanager
    def lending_process(
        self,
        process: RequestProcess,
        lending_thread: Callable[[], AbstractContextManager[None]],
        abort: Callable[[], None],
    ) -> Iterator[None]:
        """Lets other requests take the process within this block, in which its request waits.

        Args:
            abort: called before the process is taken.
        """
        with self._lock:
            self._waiting[process] = abort
        try:
            with lending_thread():
                yield
        finally:
            with self._lock:
                self._waiting.pop(process, None)

    def _take_longest_waiting(self) -> None:
        """Kills the process at once: its thread may wait long for its turn. The caller holds the lock."""
        process, abort = next(iter(self._waiting.items()))
        del self._waiting[process]
        self._used.discard(process)
        abort()
        process.take()


def count_here(count: tuple[Any, ...]) -> None:
    """Counts what a process has counted, for ``/metrics``."""
    name, *values = count
    getattr(meters, name)(*values)


def _send(environ: dict[str, Any], waited: float, child: "Child") -> "Child":
    """Raises EOFError or OSError if the process has ended."""
    body = environ["wsgi.input"]
    length = body.seek(0, 2)
    body.seek(0)
    child.pipe.send((sendable(environ), length, waited))
    child.pipe.recv()
    while part := body.read(MAX_PART):
        child.pipe.send_bytes(part)
    return child


def _end_error(child: "Child", environ: dict[str, Any], is_too_large: bool, is_taken: bool) -> PlayheadError:
    if is_taken:
        return ServerUnavailable(TAKEN, retry_after=10)
    if is_too_large:
        return Invalid(_too_much(f"{MAX_MEMORY >> 20:,} MB of memory"))
    if child.took_too_long():
        return Invalid(_too_much(f"{max_processor_seconds(environ):g} seconds of processor time"))
    return ServerFailed(ENDED)


def _ended(error: PlayheadError, *, has_written: bool) -> PlayheadError:
    """The error of a request whose process has ended. If it has written something, it may not be repeated."""
    log.warning("A large request was not carried out to its end: %s", error.detail)
    return ServerFailed(WRITTEN_ERROR) if has_written else error


def _too_much(limit: str) -> str:
    return (
        f"The request took more than {limit} and was stopped. Ask for fewer steps or a smaller budget, or "
        "send less in one request."
    )
