"""Stops parsing a file that takes far more processor time than usual for its size."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import detect
from historyapp.core.importers.base import Importer, Operation, Source

BASE_SECONDS = 10.0
SECONDS_PER_MB = 2.0
"""Real transcripts take less than a tenth of this time, even on a slow machine."""
GRACE_SECONDS = 3.0
"""This many seconds later, the kernel kills a parser process that could not be interrupted."""
_INTERRUPT_SECONDS = 0.5
"""Parsing is interrupted again after this many seconds, in case the parser has caught the first error."""

Value = TypeVar("Value")


class TookTooLong(UnreadableTranscript):
    """Parsing a file took more processor time than its size allows."""


def seconds_allowed(source: Source) -> float:
    """The seconds of processor time that parsing the file may take."""
    return BASE_SECONDS + SECONDS_PER_MB * source.stream.seek(0, os.SEEK_END) / 1e6


def too_long(allowed: float) -> TookTooLong:
    return TookTooLong(
        f"Reading the file took more than {allowed:.0f} s of processor time and was stopped. "
        "The entries before that are kept. Split the file and import the parts."
    )


def with_time_limit(operations: Iterator[Operation], source: Source) -> Iterator[Operation]:
    """The operations of a file. Only processor time of parsing counts.

    In a main thread, Python code and regular expressions are interrupted. In other threads, the time is
    checked after each operation. An operation that may not end must run in a parser process, which the kernel
    can kill.

    Raises:
        TookTooLong: when parsing took longer than ``seconds_allowed``.
    """
    limit = _TimeLimit(seconds_allowed(source))
    while (operation := limit.run(lambda: next(operations, None))) is not None:
        yield operation


def detect_in_time(source: Source) -> Importer:
    """The importer for a file.

    Raises:
        UnreadableTranscript: when the file has no supported format.
        TookTooLong: as :func:`with_time_limit`.
    """
    return _TimeLimit(seconds_allowed(source)).run(lambda: detect(source))


class _TimeLimit:
    def __init__(self, allowed: float) -> None:
        self._allowed, self._used = allowed, 0.0
        self._interrupts = threading.current_thread() is threading.main_thread()
        if self._interrupts:
            signal.signal(signal.SIGVTALRM, self._interrupt)

    def run(self, function: Callable[[], Value]) -> Value:
        """Calls the function. The time limit is for all calls together."""
        started = time.thread_time()
        if self._interrupts:
            signal.setitimer(
                signal.ITIMER_VIRTUAL, max(self._allowed - self._used, 0.001), _INTERRUPT_SECONDS
            )
        try:
            value = function()
        finally:
            if self._interrupts:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._used += time.thread_time() - started
        if self._used > self._allowed:
            raise too_long(self._allowed)
        return value

    def _interrupt(self, *_: object) -> None:
        raise too_long(self._allowed)
