"""Which summaries a context shows: a higher one hides those that it covers."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from historyapp.core.policies.base import SummaryLike

MOST_HIDDEN = 20
"""Summaries under another one that are read past before those before it are asked for."""

Some = TypeVar("Some", bound=SummaryLike)


def visible_summaries(read: Callable[[int], Iterator[Some]], end: int) -> Iterator[Some]:
    """Summaries that end before a position, none over another, the newest first; read as they are consumed.

    Args:
        read: gives those that end before a position, by their ends, the higher one of two first.
    """
    while True:
        hidden = 0
        for summary in read(end):
            if summary.last_position < end:
                yield summary
                end, hidden = summary.first_position, 0
            else:
                hidden += 1
            if hidden > MOST_HIDDEN:
                break
        else:
            return
