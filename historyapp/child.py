"""A process of this program that works for another one, which can end it: the kernel does so after a given
processor time, whatever the process is doing. It ends with its parent.

It is started by ``python -m MODULE`` and not by :mod:`multiprocessing`, which would keep one more process and
load the parent's main module again.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Thread

from historyapp.processes import end_with_parent

STOP_SECONDS = 5.0
"""Seconds in which a process that has closed its pipe ends."""


class Child:
    """A process that runs a module, with a pipe to it.

    Raises:
        OSError: when no process can be started.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            try:
                self._process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", module, str(descriptor), str(os.getpid()), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(descriptor,),
                )
            except OSError:
                ours.close()
                raise
        self.pipe = Connection(ours.detach())
        Thread(target=self._process.wait, daemon=True).start()  # otherwise it stays as a zombie

    @property
    def pid(self) -> int:
        return self._process.pid

    def took_too_long(self) -> bool:
        """Whether the kernel ended the process because it reached the limit that it had set itself."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(STOP_SECONDS) == -signal.SIGPROF
        return False

    def stop(self) -> None:
        """Ends the process at once."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()


def pipe_to_parent(arguments: list[str]) -> Connection:
    """For the process itself: its pipe, from its first two arguments. It ends when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    end_with_parent(int(arguments[1]))
    return Connection(int(arguments[0]))


def limit_processor_time(seconds: float) -> None:
    """Lets the kernel end this process after this much more processor time; 0 removes the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
