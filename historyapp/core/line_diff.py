"""The lines that two texts have in common. Counted lines and drawn diffs use the same comparison.

Source: Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), which git uses too. The time is
linear in the number of lines: a comparison that takes longer ends.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

MIN_WORK, WORK_PER_LINE = 20, 8
"""The work for one comparison of texts, in comparisons of two lines. None of the 516 edits in the transcripts
of the corpus needs more; eight of them need more than one for each line."""
MAX_WORK = 10_000
"""The work for all texts of one step, about 10 ms. An edit of the corpus needs at most 2,719."""


class WorkLeft:
    """The comparisons of two lines that may still be made for several texts."""

    def __init__(self, comparisons: int = MAX_WORK) -> None:
        self.comparisons = comparisons

    def take(self, lines: int) -> int:
        """The limit for texts with so many lines."""
        return min(self.comparisons, MIN_WORK + WORK_PER_LINE * lines)


def lines_in_common(
    before: Sequence[str], after: Sequence[str], work: WorkLeft | None = None
) -> list[tuple[int, int]]:
    """The longest list of pairs of equal lines, in order, as indices into both texts.

    Texts that take too long to compare have in common only the lines at their beginnings and ends.

    Args:
        work: shared with other texts, and reduced by what this comparison takes.
    """
    work = work or WorkLeft()
    start = _equal_lines(before, after)
    old, new = before[start:], after[start:]
    end = _equal_lines(old[::-1], new[::-1])
    old, new = old[: len(old) - end], new[: len(new) - end]
    pairs = [(index, index) for index in range(start)]
    # Lines that only one text contains are in no pair. Without them, most edits take a few comparisons.
    old_lines, new_lines = set(old), set(new)
    kept = [index for index, line in enumerate(old) if line in new_lines]
    others = [index for index, line in enumerate(new) if line in old_lines]
    numbers: dict[str, int] = {}
    first = [numbers.setdefault(old[index], len(numbers)) for index in kept]
    second = [numbers.setdefault(new[index], len(numbers)) for index in others]
    limit = work.take(len(old) + len(new))
    common, left = _longest_common(first, second, limit)
    work.comparisons -= limit - left
    pairs += [(start + kept[i], start + others[j]) for i, j in common]
    return pairs + [(len(before) - left, len(after) - left) for left in range(end, 0, -1)]


def _equal_lines(lines: Sequence[str], others: Sequence[str]) -> int:
    """The number of equal lines at the beginning."""
    pairs = enumerate(zip(lines, others, strict=False))
    return next((index for index, (line, other) in pairs if line != other), min(len(lines), len(others)))


def _longest_common(
    first: Sequence[int], second: Sequence[int], work: int
) -> tuple[list[tuple[int, int]], int]:
    """The indices of a longest common subsequence, none if finding it takes more than ``work``; and how much
    of ``work`` is left."""
    if not first or not second:
        return [], work
    reached = {1: 0}
    """The furthest index in ``first`` by diagonal, that is, by the difference of both indices."""
    history: list[dict[int, int]] = []
    for edits in range(len(first) + len(second) + 1):
        furthest: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            index = _next_index(reached, diagonal)
            other = index - diagonal
            begun = index
            while index < len(first) and 0 <= other < len(second) and first[index] == second[other]:
                index, other = index + 1, other + 1
            furthest[diagonal] = index
            work -= 1 + index - begun
            if index >= len(first) and other >= len(second):
                return _traced([*history, reached], diagonal, index), max(0, work)
        if work < 0:
            return [], 0
        history.append(reached)
        reached = furthest
    return [], 0


def _next_index(reached: dict[int, int], diagonal: int) -> int:
    """Where a diagonal begins after one more line is added or removed."""
    return max(reached.get(diagonal + 1, -1), reached.get(diagonal - 1, -2) + 1)


def _traced(history: list[dict[int, int]], diagonal: int, index: int) -> list[tuple[int, int]]:
    """The pairs on the way to the last index, from the furthest indices after each number of edits."""
    pairs: list[tuple[int, int]] = []
    for reached in reversed(history):
        begun = _next_index(reached, diagonal)
        pairs += [(line, line - diagonal) for line in range(index - 1, begun - 1, -1)]
        if reached.get(diagonal + 1, -1) >= reached.get(diagonal - 1, -2) + 1:
            diagonal, index = diagonal + 1, reached.get(diagonal + 1, 0)
        else:
            diagonal, index = diagonal - 1, reached[diagonal - 1]
    return pairs[::-1]


def marked_lines(before: Sequence[str], after: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[str]:
    """All lines: removed ones after ``-``, added ones after ``+``, common ones after a space."""
    marked: list[str] = []
    ends = [(-1, -1), *pairs, (len(before), len(after))]
    for (old, new), (next_old, next_new) in pairwise(ends):
        if old >= 0:
            marked.append(f" {before[old]}")
        marked += [f"-{line}" for line in before[old + 1 : next_old]]
        marked += [f"+{line}" for line in after[new + 1 : next_new]]
    return marked


def rewritten_ends(diff: str) -> int:
    """The lines that a unified diff removes and adds again because only one of the texts ends with a line
    break.

    >>> rewritten_ends("-docs\\n\\\\ No newline at end of file\\n+docs\\n+logs")
    1
    """
    if "\n\\" not in diff:
        return 0
    count, lines, ends = 0, dict[str, list[str]](), set[str]()
    mark = ""
    for line in [*diff.split("\n"), " "]:
        if line.startswith("\\"):
            ends.add(mark)
            continue
        mark = line[:1]
        if mark in ("+", "-"):
            lines.setdefault(mark, []).append(line[1:])
            continue
        pairs = (("-", "+"), ("+", "-"))
        count += any(
            one in ends and one in lines and lines[one][-1] in lines.get(other, ()) for one, other in pairs
        )
        lines, ends = {}, set()
    return count
