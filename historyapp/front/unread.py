"""Limits the bytes of responses that wait in temporary files for slow readers."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from tempfile import gettempdir

from historyapp.front.limits import Limits

WRITERS = 8
"""The maximum number of threads that wait for readers. While they wait, other threads run in their place."""
MIN_SHARE = 0.1
"""The share of the disk that stays free, if that is less than ``min_free``."""
WaitContext = AbstractContextManager[None]


class UnreadBytes:
    """Divides the space for unread responses among clients. Any thread may use it.

    A client may use at most ``client_unread`` bytes, and never more than the space that is still free. So the
    next client always finds space, however many clients use their shares.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._used: Counter[bytes] = Counter()
        self._waiting: set[bytes] = set()

    def take(
        self,
        client: bytes,
        size: int,
        is_gone: Callable[[], bool],
        waiting_for_client: Callable[[], WaitContext],
    ) -> bool:
        """Waits for room, for at most ``stall_seconds``. Counts the bytes and returns True, or returns False.

        Returns False at once if another thread waits for the same client, or ``WRITERS`` threads wait.

        Args:
            is_gone: returns whether the client has closed its connection.
            waiting_for_client: the context in which the thread waits.
        """
        with self._changed:
            if not self._has_room(client, size):
                with waiting_for_client():
                    if not self._wait(client, size, is_gone):
                        return False
            self._used[client] += size
            return True

    def give_back(self, client: bytes, size: int) -> None:
        """Releases bytes that are no longer in a file, and wakes waiting threads."""
        if not size and not self._waiting:
            return  # The usual case. A thread that begins to wait now checks for room first.
        with self._changed:
            self._used[client] -= size
            if not self._used[client]:
                del self._used[client]
            if self._waiting:
                self._changed.notify_all()

    @property
    def total(self) -> int:
        """The bytes of all clients in files."""
        return self._used.total()

    def _has_room(self, client: bytes, size: int) -> bool:
        free = self._limits.all_unread - self.total
        limit = min(self._limits.client_unread, free)
        return self._used[client] + size <= limit and disk_has_room(size, self._limits.min_free_disk)

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


def disk_has_room(size: int, min_free: int) -> bool:
    """Whether the temporary folder's disk has room for ``size`` bytes and keeps ``min_free`` bytes free."""
    disk = os.statvfs(gettempdir())
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return free - size >= min(min_free, MIN_SHARE * total)
