"""A child process that its parent can kill at any time. It ends with its parent, and the kernel kills it when
it exceeds its limit of processor time.

It is started by ``python -m MODULE`` and not by :mod:`multiprocessing`, which would need another process and
load the parent's main module again.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread

from historyapp.processes import end_with_parent

STOP_SECONDS = 5.0
"""A process that has closed its pipe must end within this many seconds."""
MEMORY_CHECK_SECONDS = 0.2
"""Seconds between two checks of a process whose memory is limited."""


class Child:
    """A process that runs a module, and a pipe to it.

    Raises:
        OSError: when no process can be started.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        own_end, child_end = socket.socketpair()
        with child_end:
            descriptor = child_end.fileno()
            try:
                self._process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", module, str(descriptor), str(os.getpid()), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(descriptor,),
                )
            except OSError:
                own_end.close()
                raise
        self.pipe = Connection(own_end.detach())
        Thread(target=self._process.wait, daemon=True).start()  # otherwise it stays as a zombie

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_with_descriptor(self, message: object, descriptor: int) -> None:
        """Sends a message and an open file, which the process receives with :func:`receive_descriptor`.

        Raises:
            ConnectionError: when the process has ended.
        """
        self.pipe.send(message)
        with socket_of(self.pipe) as own_end:
            socket.send_fds(own_end, [b"."], [descriptor])

    def has_ended(self, seconds: float = 1) -> bool:
        """Whether the process ends within ``seconds``. If its pipe was just closed, it needs a moment."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def took_too_long(self) -> bool:
        """Whether the kernel killed the process because it exceeded its limit of processor time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(STOP_SECONDS) == -signal.SIGPROF
        return False

    def processor_seconds(self) -> float:
        """The processor time that the process has used, or, if the system does not say (macOS), the time."""
        try:
            # See clock_getcpuclockid(3): Linux computes the clock of another process in this way.
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            return time.monotonic()

    def memory(self) -> int:
        """The bytes of memory that only the process has, or 0 if the system does not say (macOS).

        Without pages of files: SQLite maps up to 256 MB of the database for each connection.
        """
        try:
            _, pages, shared, *_ = Path(f"/proc/{self.pid}/statm").read_text().split()
        except (OSError, ValueError):  # ValueError: it has just ended
            return 0
        return (int(pages) - int(shared)) * os.sysconf("SC_PAGE_SIZE")

    @contextmanager
    def limited_memory(self, most: int) -> Iterator[Callable[[], bool]]:
        """Kills the process as soon as it has more than ``most`` bytes of memory, whatever this thread does
        meanwhile. Within the process, code in Rust aborts or waits for ever if an allocation fails.

        Yields:
            a function that returns whether it was killed for that.
        """
        ended, exceeded = Event(), Event()

        def watch() -> None:
            while not ended.wait(MEMORY_CHECK_SECONDS):
                if self.memory() > most:
                    exceeded.set()
                    self.kill()
                    return

        Thread(target=watch, daemon=True).start()
        try:
            yield exceeded.is_set
        finally:
            ended.set()

    def kill(self) -> None:
        """Kills the process without waiting for its end. Its pipe stays open until :meth:`stop`."""
        self._process.kill()

    def stop(self) -> None:
        """Kills the process and closes its pipe."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()


def receive_descriptor(pipe: Connection) -> int | None:
    """Called in the child: the open file that follows a message; None if the process has too many of them."""
    with socket_of(pipe) as own_end:
        _, descriptors, *_ = socket.recv_fds(own_end, 1, 1)
    return descriptors[0] if descriptors else None


@contextmanager
def socket_of(pipe: Connection) -> Iterator[socket.socket]:
    """The socket of a pipe, without another descriptor."""
    own_end = socket.socket(fileno=pipe.fileno())
    try:
        yield own_end
    finally:
        own_end.detach()


def pipe_to_parent(arguments: list[str], stop_seconds: float | None = None) -> Connection:
    """Called in the child: opens the pipe that the arguments name, and makes the child end with its parent.

    Args:
        arguments: the pipe's file descriptor, and the parent's process id.
        stop_seconds: see :func:`end_with_parent`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    end_with_parent(int(arguments[1]), stop_seconds)
    return Connection(int(arguments[0]))


def limit_processor_time(seconds: float) -> None:
    """Makes the kernel kill this process after ``seconds`` of further processor time; 0 removes the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
