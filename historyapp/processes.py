"""Signals and parents of the processes of ``playhead up``. Does not import Django, because the parent does
not load it."""

import os
import select
import signal
import socket
import threading
import time

REQUEST_SECONDS = 10
"""Seconds that running requests have to finish when the server stops. Model calls are cancelled then."""
CANCEL_SECONDS = 6.5
"""Seconds that cancelled model calls have to end their reservations. They notice it after at most five, when
their providers send nothing."""


def end_with_parent(parent: int, stop_seconds: float | None = None) -> None:
    """Sends this process a SIGTERM when its parent ends for any reason, and later perhaps a SIGKILL.

    Args:
        parent: the parent's process id. The parent may have ended before this is called.
        stop_seconds: the seconds after the SIGTERM at which this process is killed if it still runs. None: it
            is never killed.
    """

    def watch() -> None:
        try:
            end_of_parent = os.pidfd_open(parent)  # becomes readable when the parent ends
        except (AttributeError, OSError):  # macOS has none
            end_of_parent = None
        while os.getppid() == parent:
            if end_of_parent is None:
                time.sleep(0.2)
            else:
                select.select([end_of_parent], [], [])
                break
        os.kill(os.getpid(), signal.SIGTERM)
        if stop_seconds is not None:
            time.sleep(stop_seconds)
            os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def handle_signals_at_once() -> None:
    """Runs signal handlers in a thread as well as in the main thread. Call it in the main thread.

    Handlers may run twice, and must not raise.

    The kernel delivers a signal to any thread. Python runs the handler in the main thread when that thread
    wakes up. granian's main thread sleeps until a handler has run, so the handler would never run.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)

    def run_handlers() -> None:
        while number := receiver.recv(1):
            handler = signal.getsignal(number[0])
            if callable(handler):
                handler(number[0], None)

    threading.Thread(target=run_handlers, daemon=True).start()
