"""The memory that JSON values take."""

from collections.abc import Collection
from sys import getsizeof
from typing import Any

_FEW = 8
"""Values of an object that are looked at one by one."""


def memory_of(value: Any) -> int:
    """The bytes that a JSON value takes in memory, with everything in it.

    Texts, small numbers and names that several values share count for each of them. The JSON itself does not
    show the size: an empty list takes 56 bytes, and a text with one emoji four bytes for each letter.
    """
    size, pending = getsizeof(value), [value]
    for item in pending:
        kind = type(item)
        if kind is not dict and kind is not list:
            continue
        if kind is dict and len(item) < _FEW:  # most objects: a loop is faster than two sums and a list
            for name, member in item.items():
                size += getsizeof(name) + getsizeof(member)
                if type(member) is list or type(member) is dict:
                    pending.append(member)
            continue
        items: Collection[Any] = item
        if kind is dict:
            size += sum(map(getsizeof, item))
            items = item.values()
        size += sum(map(getsizeof, items))
        pending += [value for value in items if type(value) is list or type(value) is dict]
    return size


def memory_with_values(dumped: str) -> int:
    """About the bytes that JSON in ASCII and its values take in memory, without reading it.

    Each value counts 64 bytes. Commas and brackets in texts count as values too: for prose, that doubles the
    length.
    """
    values = dumped.count(",") + dumped.count("[") + dumped.count("{")
    return 2 * len(dumped) + 64 * values
