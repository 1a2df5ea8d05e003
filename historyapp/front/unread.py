"""Limits the bytes of responses that wait in temporary files for slow readers."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from tempfile import gettempdir

from historyapp.front.limits import Limits
from historyapp.front.pools import Client

WRITERS, SPARE_WRITERS, WRITERS_OF_OWNER = 8, 4, 4
"""The maximum number of threads that wait for readers, of further ones for owners without such a thread, and
of those of one owner. While they wait, other threads run in their place."""
MIN_SHARE = 0.1
"""The share of the disk that stays free, if that is less than ``min_free``."""


class UnreadBytes:
    """Divides the space for unread responses among owners and their clients. Any thread may use it.

    A client may use at most ``client_unread`` bytes, and an owner twice as many, and neither more than the
    space that is still free, of all or of its owner. So the next one always finds space, however many use
    their shares.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._used: Counter[bytes] = Counter()
        """By client; likewise by owner."""
        self._used_by_owner: Counter[bytes] = Counter()
        self._waiting: dict[bytes, bytes] = {}
        """The owners of the clients for which a thread waits."""

    def take(
        self,
        client: Client,
        size: int,
        is_gone: Callable[[], bool],
        lending_thread: Callable[[], AbstractContextManager[None]],
    ) -> bool:
        """Waits for room, for at most ``stall_seconds``. Counts the bytes and returns True, or returns False.

        Returns False at once if another thread waits for the same client, or too many threads wait.

        Args:
            is_gone: returns whether the client has closed its connection.
            lending_thread: the context in which the thread waits, see :class:`Pool`. Its end may wait for
                other threads.
        """
        with self._changed:
            if self._has_room(client, size):
                self._add(client, size)
                return True
            if not self._may_wait(client):
                return False
            self._waiting[client.id] = client.owner
        try:
            with lending_thread(), self._changed:
                has_room = self._wait(client, size, is_gone)
                if has_room:
                    self._add(client, size)
        finally:
            with self._changed:
                del self._waiting[client.id]
        return has_room

    def give_back(self, client: Client, size: int) -> None:
        """Releases bytes that are no longer in a file, and wakes waiting threads."""
        if not size and not self._waiting:
            return  # The usual case. A thread that begins to wait now checks for room first.
        with self._changed:
            self._add(client, -size)
            if self._waiting:
                self._changed.notify_all()

    @property
    def total(self) -> int:
        """The bytes of all clients in files."""
        return self._used.total()

    def _has_room(self, client: Client, size: int) -> bool:
        of_client = self._limits.client_unread
        free_of_owner = min(2 * of_client, self._limits.all_unread - self.total)
        free = free_of_owner - self._used_by_owner[client.owner]
        has_room = self._used[client.id] + size <= min(of_client, free)
        return has_room and disk_has_room(size, self._limits.min_free_disk)

    def _add(self, client: Client, size: int) -> None:
        for counter, key in ((self._used, client.id), (self._used_by_owner, client.owner)):
            counter[key] += size
            if not counter[key]:
                del counter[key]

    def _may_wait(self, client: Client) -> bool:
        of_owner = [*self._waiting.values()].count(client.owner)
        limit = WRITERS if of_owner else WRITERS + SPARE_WRITERS
        return client.id not in self._waiting and of_owner < WRITERS_OF_OWNER and len(self._waiting) < limit

    def _wait(self, client: Client, size: int, is_gone: Callable[[], bool]) -> bool:
        self._changed.wait_for(lambda: is_gone() or self._has_room(client, size), self._limits.stall_seconds)
        return not is_gone() and self._has_room(client, size)


def disk_has_room(size: int, min_free: int) -> bool:
    """Whether the temporary folder's disk has room for ``size`` bytes and keeps ``min_free`` bytes free."""
    disk = os.statvfs(gettempdir())
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return free - size >= min(min_free, MIN_SHARE * total)
