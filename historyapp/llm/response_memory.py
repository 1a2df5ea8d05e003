"""Limits the memory that responses of model calls take until their calls end.

A response is limited in bytes from the network. In memory it may take four times as much, if each of its
texts contains an emoji, and several times that for moments at its end.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from historyapp.llm.response_limits import TooMuch

SMALL = 1 << 22
"""Bytes of a response that do not count. A response of 60,000 tokens has about 4 MB, as each part of a text
takes 50 bytes more."""
OF_RESPONSE, MAX_TOTAL = 1 << 26, 1 << 28
"""Bytes of one response, and of all larger ones of this process."""

Keep = Callable[[int], None]
"""Called with the bytes that a response takes so far."""


class ResponseMemory:
    """The responses of this process."""

    def __init__(self) -> None:
        self._bytes = 0
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[Keep]:
        """Yields a function that counts a response until the end of this block. It raises ``TooMuch``."""
        counted = 0

        def keep(size: int) -> None:
            nonlocal counted
            if size > OF_RESPONSE:
                raise TooMuch(f"{OF_RESPONSE:,} bytes of text in memory")
            size = 0 if size <= SMALL else size
            if size == counted:
                return
            with self._lock:
                total = self._bytes - counted + size
                if size > counted and total > MAX_TOTAL:
                    raise TooMuch(f"{MAX_TOTAL:,} bytes of text in memory, with the responses of other calls")
                self._bytes, counted = total, size

        try:
            yield keep
        finally:
            with self._lock:
                self._bytes -= counted


RESPONSES = ResponseMemory()
