"""Reads a stream that may pause for a long time, without blocking the reader.

A generator cannot be closed while it waits for bytes, so another thread reads it. After every few seconds
without data the reader gets None, and can check whether its own client has disconnected.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, TypeVar

from historyapp.core.json_memory import memory_of
from historyapp.llm.pace import PACE

T = TypeVar("T")

PAUSE = 5.0
"""Seconds without data after which the reader gets None."""
JOIN_SECONDS = 5.0
"""Seconds to wait for the thread to end. It ends when its connection is closed, or earlier."""
MAX_WAITING = 1000
"""Items that wait for the reader. The thread stops reading while there are more, so that a fast provider
cannot fill the memory.
"""
SIZE = 1 << 12
"""Bytes in memory of an item that counts as one. A larger one counts as several."""

_END = object()


def read_in_thread(
    stream: Generator[T], abort: Callable[[], None], *, pause: float | None = None
) -> Generator[T | None]:
    """Yields the items of a generator, and None for each ``pause`` seconds without an item.

    Args:
        stream: the generator. It runs in another thread. Its exceptions are raised here.
        abort: makes the generator stop waiting. Called in this thread if the reader stops before the end.
    """
    items = SimpleQueue[Any]()
    stopped = Event()
    room = Semaphore(MAX_WAITING)

    def read() -> None:
        try:
            with closing(stream):
                for item in stream:
                    count = min(MAX_WAITING, 1 + memory_of(item) // SIZE)
                    for _ in range(count):
                        room.acquire()
                        if stopped.is_set():
                            return
                    items.put((item, count))
            items.put((_END, 0))
        except BaseException as error:  # noqa: BLE001 it is raised in the reader's thread
            items.put((error, 0))

    thread = Thread(target=read, name="playhead-stream", daemon=True)
    thread.start()
    try:
        with PACE.thread() as rest:
            while True:
                try:
                    item, count = items.get(timeout=PAUSE if pause is None else pause)
                except Empty:
                    yield None
                    continue
                if item is _END:
                    return
                if isinstance(item, BaseException):
                    raise item
                room.release(count)
                yield item
                del item  # it may be large, and the next one may take minutes
                rest()
    finally:
        stopped.set()
        room.release()
        if thread.is_alive():
            abort()
        thread.join(JOIN_SECONDS)
