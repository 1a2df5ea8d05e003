"""Writer processes of tests that start quickly: a process that has loaded their modules forks for each.

Starting Python and loading the modules takes 0.3 seconds of processor time, as long as ten of these tests.
"""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from threading import Lock

import pytest

from historyapp.child import Child


class _Loaded:
    """The process that forks, seen from the test."""

    def __init__(self, module: str) -> None:
        self._lock, self._has_stopped = Lock(), False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def ask(self, operation: str, pid: int = 0, *files: int) -> int:
        """The answer of the process. 0 after :meth:`stop`, when a thread may still look at an ended child."""
        with self._lock:
            if self._has_stopped:
                return 0
            socket.send_fds(self._socket, [f"{operation} {pid}".encode()], files)
            return int(self._socket.recv(20))

    def stop(self) -> None:
        with self._lock:
            self._has_stopped = True
            self._socket.close()
        self._process.wait(60)


class _ForkedChild(Child):
    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded
        own_end, child_end = socket.socketpair()
        with child_end:
            self._pid = loaded.ask("fork", 0, child_end.fileno())
        self.pipe = Connection(own_end.detach())

    @property
    def pid(self) -> int:
        return self._pid

    def took_too_long(self) -> bool:
        return self._loaded.ask("wait", self._pid) == signal.SIGPROF

    def kill(self) -> None:
        self._loaded.ask("kill", self._pid)

    def stop(self) -> None:
        self.pipe.close()
        self.kill()


@contextmanager
def forked_writers(module: str) -> Iterator[None]:
    """Each writer process that runs this module is a fork of one process, see its ``_fork_for_each``."""
    loaded = _Loaded(module)

    def child(of: str) -> Child:
        return _ForkedChild(loaded) if of == module else Child(of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("historyapp.services.summary_writers.writers.Child", child)
        yield
    loaded.stop()
