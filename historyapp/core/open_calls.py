"""The tool calls of one output that have no result yet. Removing a call is cheap at any number of calls."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import final


@final
class OpenCalls(Collection[str]):
    """Ids in the order of their calls, one for each call. It is immutable: removing an id gives a new value.

    A value and the values made from it share their dictionaries and differ only in their age, so that
    removing n ids one after the other takes O(n) time. If :meth:`without` is called on a value that is not
    the newest, the dictionaries are copied.
    """

    __slots__ = ("_age", "_ids", "_removed_at", "_size", "_times")

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = tuple(ids)
        self._size = len(self._ids)
        self._age = 0
        """The number of different ids removed before this value was made."""
        self._times: dict[str, int] = dict.fromkeys(self._ids, 1)
        if len(self._times) < self._size:
            self._times = dict(Counter(self._ids))
        self._removed_at: dict[str, int] = {}
        """The age at which an id was removed."""

    def __contains__(self, id: object) -> bool:
        return id in self._times and not self._is_removed(id)

    def __iter__(self) -> Iterator[str]:
        if not self._removed_at:
            return iter(self._ids)
        return (id for id in self._ids if not self._is_removed(id))

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpenCalls):
            return NotImplemented
        return self._size == other._size and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"OpenCalls({list(self)!r})"

    def without(self, id: str) -> "OpenCalls":
        """The open calls without those with this id."""
        if id not in self:
            return self
        if self._times[id] == self._size:
            return NONE_OPEN
        if len(self._removed_at) > self._age:
            return OpenCalls(self).without(id)
        remaining = object.__new__(OpenCalls)
        remaining._ids, remaining._times, remaining._removed_at = self._ids, self._times, self._removed_at
        remaining._age, remaining._size = self._age + 1, self._size - self._times[id]
        remaining._removed_at[id] = remaining._age
        return remaining

    def _is_removed(self, id: object) -> bool:
        age = self._removed_at.get(id)  # type: ignore[call-overload]
        return age is not None and age <= self._age


NONE_OPEN = OpenCalls()
