"""The parser processes of a web server. They start on demand and end when they have been idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from django.conf import settings

from historyapp.services.imports.parser import ParserProcess

MAX_PROCESSES = 4
"""The maximum number of processes. Each takes about 110 MB. Further imports wait until one is free."""


class ParserPool:
    """A pool of parser processes."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(MAX_PROCESSES)
        self._idle: list[ParserProcess] = []

    @contextmanager
    def acquire(self) -> Iterator[ParserProcess]:
        with self._free:
            try:
                # The most recently used one, so that the others become idle and end.
                parser = self._idle.pop()
            except IndexError:
                parser = ParserProcess(settings.PLAYHEAD_IDLE_SECONDS)
            try:
                yield parser
            finally:
                self._idle.append(parser)


PARSER_POOL = ParserPool()
