"""Sends the writes that wait in a spool, from a thread that ends when no write is left."""

import itertools
import math
import threading
import time
from collections.abc import Callable
from contextlib import closing

from historyapp.client.errors import NotSpooled
from historyapp.client.retrying import Outcome, RetryLimit, growing_pause
from historyapp.client.spool import Spool, Write
from historyapp.client.spooled_writes import TURN_PAUSE, finish_write, log


class Sender:
    """One client's access to a spool.

    Args:
        server: only writes for this server are sent.
        attempt: sends a write once, within a number of seconds.
    """

    def __init__(self, spool: Spool, server: str, attempt: Callable[[Write, float], Outcome]) -> None:
        self.spool, self._server, self._attempt = spool, server, attempt
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._release: Callable[[], object] = lambda: None

    def put(self, write: Write) -> None:
        """Stores a write in the spool, and sends it later.

        Raises:
            NotSpooled: when the spool is full, and its writes cannot be sent to make room.
        """
        try:
            self.spool.put(write)
        except NotSpooled:
            self.drain(self.spool.patience)
            self.spool.put(write)
        self.start()

    def send_all(self, retry_limit: RetryLimit) -> str:
        """Sends the waiting writes, with pauses in which the server may come back.

        Returns:
            Why writes are left; empty if all were sent.
        """
        end = time.monotonic() + retry_limit.seconds
        for attempt in itertools.count(1):
            reason = self.drain(end - time.monotonic())
            pause = growing_pause(attempt)
            if not reason or attempt == retry_limit.attempts or time.monotonic() + pause >= end:
                return reason
            time.sleep(pause)
        raise AssertionError  # unreachable: the count is infinite

    def drain(self, seconds: float) -> str:
        """Sends the waiting writes, in order, until one cannot be sent.

        Returns:
            Why writes are left; empty if all were sent.
        """
        end = time.monotonic() + seconds
        while (lock := self.spool.lock()) is None:
            if self._stopped.is_set() or time.monotonic() >= end:
                return "another client is sending the writes of this spool."
            time.sleep(TURN_PAUSE)
        with closing(lock):
            while write := self.spool.first(self._server):
                remaining = end - time.monotonic()
                if remaining <= 0:
                    return "there was not enough time to send all writes."
                if self._stopped.is_set():
                    return "this client is closed."
                if reason := finish_write(self.spool, write, self._attempt(write, remaining)):
                    return reason
        return ""

    def start(self) -> None:
        """Sends the waiting writes in the background."""
        with self._guard:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="playhead-spool", daemon=True)
                self._thread.start()

    def stop(self, release: Callable[[], object]) -> None:
        """Ends the thread after its current request. Waits up to a second for it.

        Args:
            release: closes the connections; called when the thread uses none. If a socket were closed while
                the thread reads from it, a new socket could get its number, and the thread would read from
                that socket.
        """
        self._release = release
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join(1.0)
        if thread is None or not thread.is_alive():
            release()

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set() and not self._is_done():
            try:
                reason = self.drain(math.inf)
            except (NotSpooled, RuntimeError) as error:  # RuntimeError: the client has been closed
                reason = str(error)
            failures = failures + 1 if reason else 0
            if reason:
                pause = growing_pause(failures)
                log.warning(
                    "The spool %s keeps its writes: %s Retrying in %.2f s", self.spool.path, reason, pause
                )
                self._stopped.wait(pause)
        if self._stopped.is_set():
            self._release()

    def _is_done(self) -> bool:
        """Whether no write is left. Holds the guard, so that a later write starts a new thread."""
        with self._guard:
            try:
                is_empty = self.spool.first(self._server) is None
            except NotSpooled:
                return False
            if is_empty:
                self._thread = None
            return is_empty
