"""The parser processes of a web server. They start on demand and end when they have been idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings

from historyapp.core.slots import NoSlot, Slots
from historyapp.services.imports.parser import ParserProcess
from historyapp.wire.busy import busy_error

MAX_PROCESSES, OF_PROJECT = 4, 2
"""The maximum number of processes, and of those that work for one project. Each takes about 110 MB."""
MAX_WAITING = 4
"""The maximum number of requests of a project that wait until a process is free."""
RETRY_SECONDS = 10
NO_PROCESS = (
    "Too many imports of this {whose} are running already. Wait until one of them has ended, then send the "
    "files again."
)


class ParserPool:
    """A pool of parser processes."""

    def __init__(self) -> None:
        self._slots = Slots(MAX_PROCESSES, of_owner=OF_PROJECT, waiting=MAX_WAITING)
        self._idle: list[ParserProcess] = []

    @contextmanager
    def acquire(self, project: UUID) -> Iterator[ParserProcess]:
        """Yields a process for the uploads of a project.

        Raises:
            TooManyRequests: when the project's own imports are not done in time.
            ServerUnavailable: when those of other projects are not.
        """
        try:
            self._slots.take(project, settings.PLAYHEAD_QUEUE_SECONDS)
        except NoSlot as error:
            raise busy_error(NO_PROCESS, is_own=error.is_own, retry_after=RETRY_SECONDS) from None
        try:
            try:
                # The most recently used one, so that the others become idle and end.
                parser = self._idle.pop()
            except IndexError:
                parser = ParserProcess(settings.PLAYHEAD_IDLE_SECONDS)
            try:
                yield parser
            finally:
                self._idle.append(parser)
        finally:
            self._slots.give_back(project)


PARSER_POOL = ParserPool()
