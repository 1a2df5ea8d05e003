"""Limits the memory that responses of model calls take until their calls end.

A response is limited in bytes from the network. In memory it may take four times as much, if each of its
texts contains an emoji, and several times that for moments at its end.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from historyapp.core.memory_shares import MemoryShares, NoRoom
from historyapp.llm.response_limits import MemoryInUse, TooMuch

SMALL = 1 << 22
"""Bytes of a response that do not count. A response of 60,000 tokens has about 4 MB, as each part of a text
takes 50 bytes more."""
OF_RESPONSE, OF_PROJECT, MAX_TOTAL = 1 << 26, 1 << 27, 1 << 28
"""Bytes of one response, and of all larger ones of a project and of this process."""
FEW, SPARE = 1 << 24, 1 << 27
"""A project whose responses take at most ``FEW`` bytes may also use the ``SPARE`` bytes. A response of
128,000 tokens, which is the longest of a model, has about 8 MB."""

CountMemory = Callable[[int], None]
"""Called with the bytes that a response takes so far."""


class ResponseMemory:
    """The responses of this process."""

    def __init__(self) -> None:
        self._shares = MemoryShares(MAX_TOTAL, of_owner=OF_PROJECT, few=FEW, spare=SPARE)

    @contextmanager
    def held(self, project: Hashable) -> Iterator[CountMemory]:
        """Yields a function that counts a response until the end of this block. It raises ``TooMuch``."""
        counted = 0

        def count_memory(size: int) -> None:
            nonlocal counted
            if size > OF_RESPONSE:
                raise TooMuch(f"{OF_RESPONSE:,} bytes of text in memory")
            size = 0 if size <= SMALL else size
            if size < counted:
                self._shares.give_back(project, counted - size)
            elif size > counted:
                try:
                    self._shares.add(project, size - counted)
                except NoRoom as error:
                    whose = "other calls of this project" if error.is_own else "other calls"
                    raise MemoryInUse(f"{error.limit:,} bytes with the responses of {whose}") from None
            counted = size

        try:
            yield count_memory
        finally:
            count_memory(0)


RESPONSES = ResponseMemory()
