"""How many bytes of responses wait in temporary files for clients that read slowly."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from tempfile import gettempdir

from historyapp.front.limits import Limits

WRITERS = 8
"""Threads that may wait for readers at once, of all clients. Other threads run instead of them."""
LEAST_SHARE = 0.1
"""Share of a small disk that stays free, where ``spare`` is more than that."""
Aside = AbstractContextManager[None]


class UnreadBytes:
    """Shares the room for unread responses among clients. May be used in any thread.

    A client may fill at most ``client_unread``, and never more than what is left free. So however many
    clients fill their shares, the next one finds room too.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._held: Counter[bytes] = Counter()
        self._waiting: set[bytes] = set()

    def take(self, client: bytes, size: int, is_gone: Callable[[], bool], aside: Callable[[], Aside]) -> bool:
        """Waits until there is room, at most ``stall_seconds``. Counts the bytes, or returns False.

        A second thread that would wait for the same client, or beyond ``WRITERS``, does not wait.

        Args:
            is_gone: whether the client has closed its connection.
            aside: a context in which the thread waits.
        """
        with self._changed:
            if not self._has_room(client, size):
                with aside():
                    if not self._wait(client, size, is_gone):
                        return False
            self._held[client] += size
            return True

    def give_back(self, client: bytes, size: int) -> None:
        """The bytes are not in a file any more. Threads that wait look again whether they have room."""
        if not size and not self._waiting:
            return  # as after most requests; a thread that begins to wait now looks first whether it may
        with self._changed:
            self._held[client] -= size
            if not self._held[client]:
                del self._held[client]
            if self._waiting:
                self._changed.notify_all()

    @property
    def total(self) -> int:
        """The bytes of all clients that wait in files."""
        return self._held.total()

    def _has_room(self, client: bytes, size: int) -> bool:
        left = self._limits.all_unread - self.total
        most = min(self._limits.client_unread, left)
        return self._held[client] + size <= most and disk_has_room(size, self._limits.min_free_disk)

    def _wait(self, client: bytes, size: int, is_gone: Callable[[], bool]) -> bool:
        if client in self._waiting or len(self._waiting) >= WRITERS:
            return False
        self._waiting.add(client)
        try:
            self._changed.wait_for(
                lambda: is_gone() or self._has_room(client, size), self._limits.stall_seconds
            )
        finally:
            self._waiting.discard(client)
        return not is_gone() and self._has_room(client, size)


def disk_has_room(size: int, spare: int) -> bool:
    """Whether the disk of the temporary folder takes this many bytes and keeps ``spare`` free."""
    disk = os.statvfs(gettempdir())
    free, whole = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return free - size >= min(spare, LEAST_SHARE * whole)
