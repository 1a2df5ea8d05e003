"""The memory that JSON values take."""

from collections.abc import Collection
from sys import getsizeof
from typing import Any


def memory_of(value: Any) -> int:
    """The bytes that a JSON value takes in memory, with everything in it.

    Texts, small numbers and names that several values share count for each of them. The JSON itself does not
    show the size: an empty list takes 56 bytes, and a text with one emoji four bytes for each letter.
    """
    size, pending = getsizeof(value), [value]
    for item in pending:
        items: Collection[Any]
        if type(item) is dict:
            size += sum(map(getsizeof, item))
            items = item.values()
        elif type(item) is list:
            items = item
        else:
            continue
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
