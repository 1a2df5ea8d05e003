"""A limited number of slots for heavy work. One owner gets only some of them."""

import threading
from collections import Counter
from collections.abc import Hashable


class NoSlot(Exception):
    """No slot became free in time.

    ``is_own``: whether the owner itself uses all slots that it may have.
    """

    def __init__(self, *, is_own: bool) -> None:
        super().__init__("no slot became free in time")
        self.is_own = is_own


class Slots:
    """Slots that the threads of a process take and give back.

    Args:
        number: the number of slots.
        of_owner: the maximum number of slots of one owner.
        waiting: the maximum number of threads of one owner that wait for a slot.
    """

    def __init__(self, number: int, *, of_owner: int, waiting: int) -> None:
        self._number, self._of_owner, self._max_waiting = number, of_owner, waiting
        self._taken = Counter[Hashable]()
        self._waiting = Counter[Hashable]()
        self._changed = threading.Condition()

    def take(self, owner: Hashable, seconds: float) -> None:
        """Takes a slot. Waits at most ``seconds`` for it.

        Raises:
            NoSlot: when no slot became free, or too many threads of the owner wait already.
        """
        with self._changed:
            if not self._is_free(owner):
                self._wait(owner, seconds)
            self._taken[owner] += 1

    def take_at_once(self, owner: Hashable) -> bool:
        """Takes a slot if one is free. Returns whether it was."""
        with self._changed:
            if not self._is_free(owner):
                return False
            self._taken[owner] += 1
            return True

    def give_back(self, owner: Hashable) -> None:
        with self._changed:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
            self._changed.notify_all()

    def _wait(self, owner: Hashable, seconds: float) -> None:
        if self._waiting[owner] >= self._max_waiting:
            raise self._no_slot(owner)
        self._waiting[owner] += 1
        try:
            if not self._changed.wait_for(lambda: self._is_free(owner), seconds):
                raise self._no_slot(owner)
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner]

    def _is_free(self, owner: Hashable) -> bool:
        return self._taken.total() < self._number and self._taken[owner] < self._of_owner

    def _no_slot(self, owner: Hashable) -> NoSlot:
        return NoSlot(is_own=self._taken[owner] >= self._of_owner)
