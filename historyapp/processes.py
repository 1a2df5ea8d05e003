"""Signals and parents of the processes of ``playhead up``. Without Django: the parent holds none."""

import os
import signal
import socket
import threading
import time


def end_with_parent(parent: int) -> None:
    """Sends this process a SIGTERM once its parent has ended, however that ended.

    Args:
        parent: its process id, as the parent knew it: it may have ended before this is called.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def heed_signals() -> None:
    """Runs signal handlers at once, in a thread as well as in the main thread. Call it in the main thread.

    Handlers may run twice, and must not raise.
    The kernel gives a signal to any thread of a process. Python runs its handler in the main thread once that
    wakes up; granian's main threads sleep until a handler has run, so that neither would ever happen.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_run_handlers, args=(receiver,), daemon=True).start()


def _run_handlers(receiver: socket.socket) -> None:
    while number := receiver.recv(1):
        handler = signal.getsignal(number[0])
        if callable(handler):
            handler(number[0], None)
