"""The format of values in Redis, and the time limits for its responses.

Redis is often less protected than the database, so its values are not trusted: nothing is unpickled.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import BoundedSemaphore, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")

RESPONSE_SECONDS = 2
"""The time limit for each response of Redis, in seconds. Without it, a Redis that hangs would block threads
forever."""
TIME_LIMITS: dict[str, Any] = {
    "socket_connect_timeout": RESPONSE_SECONDS,
    "socket_timeout": RESPONSE_SECONDS,
}


MAX_THREADS = 4
"""The maximum number of threads that wait for Redis within :func:`in_time`."""
RETRY_SECONDS = 5.0
"""Nothing is called within :func:`in_time` for this many seconds after a call took too long."""
_free = BoundedSemaphore(MAX_THREADS)


class _Slow:
    until = 0.0
    """The monotonic time until which Redis counts as unavailable, because it has just responded too late."""


def in_time(function: Callable[[], Result], *, waits: bool = False) -> Result:
    """Calls a function that waits for Redis, for at most ``RESPONSE_SECONDS``.

    ``socket_timeout`` is a limit for each part of a response: a server that sends a byte now and then could
    take any time. The function has a thread of its own, which may wait longer.

    Args:
        waits: whether to wait for a thread within the same time, because many threads call Redis at once.

    Raises:
        TimeoutError: when the time is over, and at once while Redis counts as unavailable.
    """
    free, until = _free, time.monotonic() + RESPONSE_SECONDS
    if time.monotonic() < _Slow.until:
        raise TimeoutError("Redis does not respond.")
    if not free.acquire(waits, RESPONSE_SECONDS if waits else None):
        if waits:
            _Slow.until = time.monotonic() + RETRY_SECONDS
        raise TimeoutError("Redis does not respond.")
    if time.monotonic() < _Slow.until:
        free.release()
        raise TimeoutError("Redis does not respond.")
    result: Future[Result] = Future()

    def call() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 raised again in the thread that waits
            result.set_exception(error)
        finally:
            free.release()

    Thread(target=call, name="redis", daemon=True).start()
    try:
        return result.result(max(0, until - time.monotonic()))
    except TimeoutError as error:
        if not result.done():
            _Slow.until = time.monotonic() + RETRY_SECONDS
        raise TimeoutError("Redis does not respond.") from error


class NumberSerializer:
    """Stores numbers as text. Django's own serializer runs the code in a stored pickle."""

    def dumps(self, value: float) -> bytes:
        return repr(float(value)).encode()

    def loads(self, stored: bytes) -> float:
        """The number; 0 for anything else."""
        try:
            return float(stored)
        except ValueError:
            return 0.0
