"""Listening to somebody who may be silent for long, without having to wait until they speak.

A generator cannot be closed while it waits for bytes. So a thread of its own waits, and whoever reads is told
of silence every few seconds: a chance to notice that nobody wants to know any more.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final, TypeVar

T = TypeVar("T")

PAUSE = 5.0
"""Seconds of silence."""
LONGEST_GOODBYE = 5.0
"""Seconds that a thread may take to end; it ends with its connection at the latest."""


class _Ended:
    """The generator has given all it had."""


_ENDED: Final = _Ended()


def listened(
    said: Generator[T], hang_up: Callable[[], None], *, pause: float | None = None
) -> Generator[T | None]:
    """What a generator gives, and None for each ``pause`` seconds (:data:`PAUSE`) without anything.

    Args:
        said: runs in a thread of its own, from its beginning to its end. What it raises is raised here.
        hang_up: makes it stop waiting; called from this thread when somebody stops listening before its end.
    """
    heard = SimpleQueue[T | _Ended | BaseException]()
    left = Event()

    def listen() -> None:
        try:
            with closing(said):
                for each in said:
                    if left.is_set():
                        return
                    heard.put(each)
            heard.put(_ENDED)
        except BaseException as error:  # noqa: BLE001 it is raised where somebody listens
            heard.put(error)

    thread = Thread(target=listen, name="playhead-listener", daemon=True)
    thread.start()
    try:
        while True:
            try:
                each = heard.get(timeout=PAUSE if pause is None else pause)
            except Empty:
                yield None
                continue
            if isinstance(each, _Ended):
                return
            if isinstance(each, BaseException):
                raise each
            yield each
    finally:
        left.set()
        if thread.is_alive():
            hang_up()
        thread.join(LONGEST_GOODBYE)
