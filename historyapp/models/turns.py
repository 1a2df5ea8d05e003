"""Which steps belong to a turn: the first step after an input of a person, and those up to the next turn.

Rows have the running number of their turn, which never falls along a lineage. A step is found by reading rows
at even distances, then those between two of them: two queries in a session of 100,000 steps.
"""

from collections.abc import Sequence
from math import ceil

from historyapp.models.episodes import Episode, StepSample
from historyapp.models.history import History

_AT_ONCE = 320
"""Rows that one query reads, about 1 ms."""


def first_step(history: History, turn: int, least: int = 1) -> int | None:
    """The first step of a turn, or of the next one if the turn is none; None where no turn is as late.

    Args:
        least: a step of an earlier turn, or 1.
    """
    return _search(history, turn, least)[0]


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


def end_of_turn(history: History, row: Episode) -> Episode | StepSample:
    """The last step of the turn of a row, without a query of its own."""
    following, last = _search(history, row.turn + 1, row.number)
    if following is None:
        return history.newest_shown or row
    return last or row


def _search(history: History, turn: int, least: int) -> tuple[int | None, Episode | StepSample | None]:
    """The first step of the turn or a later one, and the row before it if it was read."""
    newest = history.newest
    if newest is None or newest.turn < turn:
        return None, None
    before, found = least - 1, history.steps
    row: Episode | StepSample | None = None
    while found - before > 1:
        gap = ceil((found - before) / (_AT_ONCE + 1))
        for read in _rows(history, range(before + gap, found, gap)):
            if read.turn >= turn:
                found = read.number
                break
            before, row = read.number, read
    return found, row


def _rows(history: History, numbers: range) -> Sequence[Episode | StepSample]:
    """Some steps; one of them where rows of takes are in the way."""
    rows = Episode.objects.sampled_sparsely(history.lineage, numbers)
    return rows or [history.row(numbers[len(numbers) // 2])]
