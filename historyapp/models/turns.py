"""Which steps belong to a turn: the first step after an input of a person, and those up to the next turn.

Rows have the running number of their turn, which never falls along a lineage. A step is found by reading a
few rows at even distances, then some between two of them: three queries in a session of 100,000 steps.
"""

from collections.abc import Iterable
from math import ceil

from historyapp.models.episodes import Episode
from historyapp.models.history import History

_AT_ONCE = 64
"""Rows that one query reads."""


def first_step(history: History, turn: int, least: int = 1) -> int | None:
    """The first step of a turn, or of the next one if the turn is none; None where no turn is as late.

    Args:
        least: a step of an earlier turn, or 1.
    """
    newest = history.newest
    if newest is None or newest.turn < turn:
        return None
    before, found = least - 1, history.steps
    while found - before > 1:
        gap = ceil((found - before) / (_AT_ONCE + 1))
        for number, known in _turns(history, range(before + gap, found, gap)):
            if known >= turn:
                found = number
                break
            before = number
    return found


def steps_of_turn(history: History, turn: int) -> range:
    """The steps of a turn; none if it has none."""
    first = first_step(history, turn)
    if first is None or history.row(first).turn != turn:
        return range(0)
    return range(first, last_step(history, turn, first) + 1)


def last_step(history: History, turn: int, known: int) -> int:
    """The last step of a turn, of which one step is known."""
    following = first_step(history, turn + 1, known)
    return history.steps if following is None else following - 1


def _turns(history: History, numbers: range) -> Iterable[tuple[int, int]]:
    """The turns of some steps; of one of them where rows of takes are in the way."""
    rows = Episode.objects.sampled_sparsely(history.lineage, numbers)
    if not rows:
        row = history.row(numbers[len(numbers) // 2])
        return [(row.number, row.turn)]
    return [(row.number, row.turn) for row in rows]
