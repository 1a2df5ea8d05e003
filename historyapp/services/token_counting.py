"""Counting the tokens of many texts, here or beside the work that goes on.

Counting takes a third of the time of a large import, and it holds Python's lock. A process of its own does it
while this one reads and writes.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Protocol

from historyapp.core.tokens import count_texts

Counted = Callable[[], list[int]]
"""Gives the counts, and waits for them if need be."""


class TokenCounting(Protocol):
    def start(self, texts: Sequence[str]) -> Counted:
        """Begins to count some texts."""
        ...


class CountingHere:
    """Counts when the counts are asked for."""

    def start(self, texts: Sequence[str]) -> Counted:
        return lambda: count_texts(texts)


class CountingBeside:
    """Counts in a process of its own, which ends with the ``with`` block. Not for use inside a web server."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=context)

    def start(self, texts: Sequence[str]) -> Counted:
        return self._pool.submit(count_texts, list(texts)).result

    def __enter__(self) -> "CountingBeside":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
