"""Slots for work of which the requests of one project, and of all projects together, do only some at once."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from historyapp.core.slots import NoSlot, Slots
from historyapp.services.connections import release_connection
from historyapp.wire.busy import busy_error

RETRY_SECONDS = 2


class ProjectSlots:
    """Slots that requests wait for.

    Args:
        seconds: the longest wait for a slot.
        error: the error of a request that gets none; ``{whose}`` stands for the project or the server.
    """

    def __init__(self, slots: Slots, seconds: float, error: str) -> None:
        self.slots = slots
        self._seconds, self._error = seconds, error

    @contextmanager
    def held(self, project: Hashable) -> Iterator[None]:
        """Holds a slot during the block. Errors: as :meth:`take`."""
        self.take(project)
        try:
            yield
        finally:
            self.slots.give_back(project)

    def take(self, project: Hashable) -> None:
        """Takes a slot. A request that waits for one has no connection to PostgreSQL.

        Raises:
            TooManyRequests: when the project has all slots that it may have, for too long.
            ServerUnavailable: when all projects together do.
        """
        if self.slots.take_at_once(project):
            return
        release_connection()
        try:
            self.slots.take(project, self._seconds)
        except NoSlot as error:
            raise busy_error(self._error, is_own=error.is_own, retry_after=RETRY_SECONDS) from None
