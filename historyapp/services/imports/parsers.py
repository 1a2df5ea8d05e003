"""The parser processes of a web server. They start on demand and end when they have been idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from django.conf import settings

from historyapp.services.imports.parser import ParserProcess

MAX = 4
"""The maximum number of processes, each of about 110 MB. Further imports wait for one."""


class Parsers:
    """Lends parser processes to imports."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(MAX)
        self._idle: list[ParserProcess] = []

    @contextmanager
    def lend(self) -> Iterator[ParserProcess]:
        with self._free:
            try:
                parser = self._idle.pop()  # the one used last, so that the others become idle and end
            except IndexError:
                parser = ParserProcess(settings.PLAYHEAD_IDLE_SECONDS)
            try:
                yield parser
            finally:
                self._idle.append(parser)


PARSERS = Parsers()
