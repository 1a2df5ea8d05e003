"""Shares a limited amount of memory between owners, so that a few of them never take all of it."""

import threading
from collections import Counter
from collections.abc import Hashable


class NoRoom(Exception):
    """There is no room for more bytes.

    ``is_own``: whether the owner itself takes too much. ``limit``: the bytes of the owner, or of all.
    """

    def __init__(self, *, is_own: bool, limit: int) -> None:
        super().__init__(f"more than {limit:,} bytes")
        self.is_own, self.limit = is_own, limit


class MemoryShares:
    """The bytes that each owner takes.

    Args:
        total: the bytes of all owners.
        of_owner: the bytes of one owner. A single piece may be larger; for others it counts as this.
        few: the bytes up to which an owner may also use the spare ones.
        spare: further bytes, only for owners that take few.
    """

    def __init__(self, total: int, *, of_owner: int, few: int, spare: int) -> None:
        self._total, self._of_owner, self._few, self._spare = total, of_owner, few, spare
        self._bytes = Counter[Hashable]()
        self._lock = threading.Lock()

    def of(self, owner: Hashable) -> int:
        """The bytes that the owner takes."""
        return self._bytes.get(owner, 0)

    def add(self, owner: Hashable, size: int) -> None:
        """Takes bytes.

        Raises:
            NoRoom: when the owner has too many already, or all owners together do.
        """
        with self._lock:
            own = self.of(owner)
            if own and own + size > self._of_owner:
                raise NoRoom(is_own=True, limit=self._of_owner)
            limit = self._total + (self._spare if own + size <= self._few else 0)
            total = sum(min(held, self._of_owner) for held in self._bytes.values())
            if total + min(size, self._of_owner) > limit:
                raise NoRoom(is_own=False, limit=limit)
            self._bytes[owner] += size

    def give_back(self, owner: Hashable, size: int) -> None:
        with self._lock:
            self._bytes[owner] -= size
            if not self._bytes[owner]:
                del self._bytes[owner]
