"""Divides items into batches of limited size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(items: Iterable[T], size_of: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Lists of items, in their order. The sizes in a list add up to at most ``limit``, unless it has one
    item."""
    batch, total = list[T](), 0
    for item in items:
        size = size_of(item)
        if batch and total + size > limit:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
