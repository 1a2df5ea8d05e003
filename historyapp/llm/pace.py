"""Keeps the threads that read fast responses from using all processor time.

Python runs one thread at a time. Sixteen model calls whose provider sent small events as fast as it could
made an append take 9 seconds. Here all threads that read responses use at most half of the time together,
each the same share. With one model call, this is 3,000 events a second; a provider sends 50 to 200.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

REST = 2
"""Seconds of rest for each second of work of all threads together."""
MIN_WORK = 0.001
"""Seconds of work before a rest. A sleep takes 0.1 ms longer than requested."""
MAX_REST = 0.25
"""Seconds. A rest delays the end of a cancelled model call."""


@dataclass(frozen=True, slots=True)
class PaceClock:
    work: Callable[[], float] = time.thread_time
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class ReadingPace:
    """The threads that share the time."""

    def __init__(self, clock: PaceClock | None = None) -> None:
        self._clock = clock or PaceClock()
        self._lock = threading.Lock()
        self._threads = 0

    @contextmanager
    def thread(self) -> Iterator[Callable[[], None]]:
        """Yields a function that the thread calls after each piece of work. It sleeps if necessary."""
        with self._lock:
            self._threads += 1
        clock = self._clock
        worked, since = clock.work(), clock.now()

        def rest() -> None:
            nonlocal worked, since
            work, elapsed = clock.work() - worked, clock.now() - since
            if work < MIN_WORK:
                return
            owed = min(work, elapsed) * (1 + REST * self._threads) - elapsed
            if owed > 0:
                clock.sleep(min(owed, MAX_REST))
            if owed <= MAX_REST:  # otherwise the remainder follows after the next piece
                worked, since = clock.work(), clock.now()

        try:
            yield rest
        finally:
            with self._lock:
                self._threads -= 1


PACE = ReadingPace()
"""Of all model calls of this process."""
