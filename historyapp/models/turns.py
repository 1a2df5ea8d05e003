"""Finds the steps of a turn: from the first step after an input from a person up to the next turn.

Rows have the running number of their turn, which never decreases along a lineage. The search reads rows at
even distances between rows that have been read before. In a session of 100,000 steps it takes one query if
the timeline has been drawn, otherwise two.
"""

from collections.abc import Iterable
from math import ceil

from historyapp.models.episodes import Episode, StepSample
from historyapp.models.history import History

_AT_ONCE = 400
"""Rows of one query, which takes about 1 ms."""


def first_step(history: History, turn: int) -> int | None:
    """The first step of a turn or, if the turn has no steps, of the next one. None if there is no
    later turn.
    """
    for row in history.known_rows.values():
        if row.turn == turn and row.turn_first:
            return row.turn_first
    return _search(history, turn)[0]


def steps_of_turn(history: History, turn: int) -> range:
    """The steps of a turn. May be empty."""
    first = first_step(history, turn)
    if first is None or history.row(first).turn != turn:
        return range(0)
    return range(first, last_step(history, turn) + 1)


def last_step(history: History, turn: int) -> int:
    """The last step of a turn. The turn must be in the history."""
    following = first_step(history, turn + 1)
    return history.steps if following is None else following - 1


def end_of_turn(history: History, row: Episode) -> Episode | StepSample:
    """The last step of the turn of a row. Takes no query."""
    following, last = _search(history, row.turn + 1)
    if following is None:
        return history.newest_shown or row
    return last or row


def _search(history: History, turn: int) -> tuple[int | None, Episode | StepSample | None]:
    """The first step of the turn or of a later turn, and the row before it if it was read."""
    newest = history.newest
    if newest is None or newest.turn < turn:
        return None, None
    before, value = 0, history.steps
    row: Episode | StepSample | None = None
    rows: Iterable[Episode | StepSample] = history.known_rows.values()
    while True:
        for read in rows:
            if read.turn < turn:
                before, row = read.number, read
            elif read.number < value:
                value = read.number
        if value - before <= 1:
            return value, row
        gap = ceil((value - before) / (_AT_ONCE + 1))
        numbers = range(before + gap, value, gap)
        rows = Episode.objects.sampled_sparsely(history.lineage, numbers) or []
        if not rows:  # rows of takes have these numbers
            rows = [history.row(numbers[len(numbers) // 2])]
