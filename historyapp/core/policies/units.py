"""A session's past as what a context is put together from: steps and asides, newest first."""

from collections.abc import Iterator
from heapq import merge

from historyapp.core.conversation import Aside, Said
from historyapp.core.episodes import Episode
from historyapp.core.policies.base import Past

Unit = Episode | Aside
"""A step, or what was said between two steps."""


def newest_first(past: Past) -> Iterator[Unit]:
    """All live steps and asides. An input that came during a step stands after it."""
    return merge(past.episodes_newest_first(), past.asides_newest_first(), key=position_of, reverse=True)


def position_of(unit: Unit) -> int:
    return unit.first_position if isinstance(unit, Episode) else unit.position


def said_of(unit: Unit) -> Said:
    """The unit in full."""
    return unit.turn if isinstance(unit, Episode) else unit
