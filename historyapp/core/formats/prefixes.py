"""Computes the SHA-256 of a request up to each of its parts, while the parts are added.

Reasoning is bound to everything before it. With this, one pass over a context checks for each step whether
the bytes before its reasoning are unchanged.
"""

import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Self

from historyapp.core.context import Context, Item
from historyapp.core.formats.base import Format, Frame
from historyapp.core.formats.calls import CallIds
from historyapp.core.formats.tools import Definition
from historyapp.core.json import compact_json


class RequestPrefix:
    """A request without cache breakpoints that grows by items."""

    def __init__(self, format: Format, context: Context, tools: Sequence[Definition] = ()) -> None:
        self._format = format
        opening = format.opening(context, tools)
        items: list[Item] = opening[format.items_field]
        self._hash = hashlib.sha256(compact_json(opening)[: -len("]}")].encode())
        self._before: Item | None = items[-1] if items else None
        """The last item that was hashed."""
        self._first: Item | None = None
        self._last: Item | None = None
        self._pending: list[Item] = []
        """Items that are not hashed yet: most requests are never compared."""

    def copy(self) -> Self:
        copied = copy(self)
        copied._hash, copied._pending = self._hash.copy(), list(self._pending)
        return copied

    def add(self, items: Iterable[Item]) -> None:
        """Adds items to the end of the prefix."""
        for item in items:
            if self._first is None:
                self._first = item
                self._pending += self._format.text_items(self._format.frame([item]).before)
            self._pending.append(item)
            self._last = item

    def is_beginning_of(self, item: Item) -> bool:
        """Whether the request that ends here is the beginning of a request that continues with an item."""
        first = self._first or item
        return self._frame() == Frame(before=self._format.frame([first]).before)

    def sha256(self) -> str:
        """The SHA-256 of the canonical bytes of the request that ends here."""
        self._hash_items(self._pending)
        self._pending = []
        ended = self.copy()
        before, after = map(self._format.text_items, self._frame())
        ended._hash_items([*([] if self._first else before), *after])
        ended._hash.update(self._format.closing.encode())
        return ended._hash.hexdigest()

    def _frame(self) -> Frame:
        return self._format.frame([item for item in (self._first, self._last) if item])

    def _hash_items(self, items: Iterable[Item]) -> None:
        for item in items:
            self._hash.update(self._format.piece(item, self._before).encode())
            self._before = item


def prefix_sha256(format: Format, context: Context, tools: Sequence[Definition] = ()) -> str:
    """The SHA-256 of a whole request without cache breakpoints and live screen."""
    prefix, ids = RequestPrefix(format, context, tools), CallIds(format.longest_id)
    for part in context.parts[context.leading :]:
        prefix.add(format.identified(part, [ids.of(part.position, id) for id in part.calls]))
    return prefix.sha256()
