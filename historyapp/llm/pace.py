"""Keeps the threads that read fast responses from using all processor time.

Python runs one thread at a time. Sixteen model calls whose provider sent small events as fast as it could
made an append take 9 seconds. Here all threads that read responses use at most half of the time together.
Those that need less than their share, because they mostly wait for their provider, do not rest; the others
get equal shares of what is left. One model call can read 3,000 events a second; a provider sends 50 to 200.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SHARE = 0.5
"""Seconds of work for each second, of all threads together."""
MIN_WORK = 0.001
"""Seconds of work before a rest. A sleep takes 0.1 ms longer than requested."""
MAX_REST = 0.25
"""Seconds. A rest delays the end of a cancelled model call."""
RECENT = 0.5
"""Seconds. A thread that has not done a piece of work for this long gets no share."""


@dataclass(frozen=True, slots=True)
class PaceClock:
    work: Callable[[], float] = time.thread_time
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True, eq=False)
class _Reader:
    """A thread and its last piece of work."""

    demand: float = 0.0
    """The work as a part of the time that it took, with the time that it waited."""
    until: float = 0.0
    """Until then, the thread gets a share."""


class ReadingPace:
    """The threads that share the time."""

    def __init__(self, clock: PaceClock | None = None) -> None:
        self._clock = clock or PaceClock()
        self._lock = threading.Lock()
        self._readers = set[_Reader]()

    @contextmanager
    def thread(self) -> Iterator[Callable[[], None]]:
        """Yields a function that the thread calls after each piece of work. It sleeps if necessary."""
        clock, reader = self._clock, _Reader()
        with self._lock:
            self._readers.add(reader)
        worked, since = clock.work(), clock.now()

        def rest() -> None:
            nonlocal worked, since
            work, now = clock.work() - worked, clock.now()
            if work < MIN_WORK:
                return
            elapsed = max(work, now - since)
            owed = work / self._share_of(reader, work / elapsed, now) - elapsed
            if owed > 0:
                clock.sleep(min(owed, MAX_REST))
            if owed <= MAX_REST:  # otherwise the remainder follows after the next piece
                worked, since = clock.work(), clock.now()

        try:
            yield rest
        finally:
            with self._lock:
                self._readers.remove(reader)

    def _share_of(self, reader: _Reader, demand: float, now: float) -> float:
        """The part of the time that the thread may work now."""
        with self._lock:
            reader.demand, reader.until = demand, now + MAX_REST + RECENT
            others = [other for other in self._readers if other.until > now and other is not reader]
            demands = sorted(other.demand for other in others)
        left, count = SHARE, len(demands) + 1
        for needed in demands:
            if needed * count >= left:
                break
            left, count = left - needed, count - 1
        return left / count


PACE = ReadingPace()
"""Of all model calls of this process."""
