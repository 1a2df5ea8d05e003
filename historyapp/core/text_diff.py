"""The line diff of two texts of any length, as the parts of a unified diff.

Only a limited part of each text is compared, from shortly before the first difference on, so the time and
the memory do not depend on the length of the texts except for finding that difference. Nobody sees blanks at
the end of a line, so a line with a backslash names them if nothing else differs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from historyapp.core.line_diff import WorkLeft, lines_in_common, marked_lines
from historyapp.core.text import MAX_READ

MAX_COMPARED = MAX_READ // 2
"""Characters of each text that are compared."""
MAX_STEP = 8 * MAX_COMPARED
"""Characters of all texts of two steps that are compared."""
AROUND = 3
"""Unchanged lines shown around a change."""
MAX_LEAD = 300
"""Characters shown before the first difference."""
MAX_LINE = 2_000
"""Characters shown of a line. Then a long line that was changed shows its old and its new beginning."""
_BLANKS = {" ": "space", "\t": "tab", "\r": "carriage return"}


def text_diff(before: str, after: str, work: WorkLeft | None = None) -> str:
    """The parts of a unified diff; empty if the texts are equal, or differ only in a line break at the end.

    Args:
        work: shared by the texts of one request.
    """
    if before == after:
        return ""
    start = _start(before, _first_difference(before, after))
    old, new = (_lines(text[start : start + MAX_COMPARED]) for text in (before, after))
    if start and before[start - 1] != "\n":  # the part begins inside a line
        old, new = (["…" + lines[0], *lines[1:]] if lines else lines for lines in (old, new))
    marked = marked_lines(old, new, lines_in_common(old, new, work))
    return "\n".join(_parts(marked, before.count("\n", 0, start) + 1))


def is_partial(before: str, after: str) -> bool:
    """Whether texts are so long that a part of them may not be compared."""
    return max(len(before), len(after)) > MAX_COMPARED


def _first_difference(before: str, after: str) -> int:
    """The number of equal characters at the beginning. Each half is compared once."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _start(text: str, difference: int) -> int:
    """Where the compared part begins: a few lines before the difference, or inside of a long line."""
    floor, start, found = max(0, difference - MAX_LEAD), -1, difference
    for _ in range(AROUND + 1):
        found = text.rfind("\n", floor, found)
        if found < 0:
            break
        start = found + 1
    if found < 0 and not floor:
        return 0
    return floor if start < 0 else start


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _parts(marked: Sequence[str], first_line: int) -> Iterator[str]:
    """The changed lines with the lines around them, each part below a line with ``@@``; a part with all lines
    has none."""
    spans = list[list[int]]()
    for index, line in enumerate(marked):
        if line[0] == " ":
            continue
        begin, end = max(0, index - AROUND), min(len(marked), index + AROUND + 1)
        if spans and begin <= spans[-1][1]:
            spans[-1][1] = end
        else:
            spans.append([begin, end])
    old = new = first_line
    position = 0
    for begin, end in spans:
        lines = marked[begin:end]
        removed, added = (sum(line[0] == mark for line in lines) for mark in "-+")
        old, new = old + begin - position, new + begin - position
        old_lines, new_lines = len(lines) - added, len(lines) - removed
        if first_line > 1 or [begin, end] != [0, len(marked)]:
            yield f"@@ -{old},{old_lines} +{new},{new_lines} @@"
        yield from _with_blanks(lines)
        old, new, position = old + old_lines, new + new_lines, end


def _with_blanks(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a part. If a changed line differs from another one only in the blanks at its end, a line
    with a backslash after it names them."""
    stripped = {mark: {line[1:].rstrip() for line in lines if line[0] == mark} for mark in "-+"}
    both = stripped["-"] & stripped["+"]
    whole = {mark: {line[1:] for line in lines if line[0] == mark} for mark in "-+"}
    for line in lines:
        yield _shortened(line)
        text = line[1:].rstrip()
        if line[0] != " " and text in both and line[1:] not in whole["+" if line[0] == "-" else "-"]:
            yield f"\\ {_blanks_text(line[1 + len(text) :])}"


def _blanks_text(blanks: str) -> str:
    """The blanks at the end of a line in words.

    >>> _blanks_text("  ")
    'ends with 2 spaces'
    """
    counts = Counter(_BLANKS.get(blank, "other blank") for blank in blanks)
    words = [f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items()]
    return f"ends with {', '.join(words)}" if words else "ends without blanks"


def _shortened(line: str) -> str:
    left_out = len(line) - MAX_LINE
    return f"{line[:MAX_LINE]} … {left_out:,} more characters" if left_out > 0 else line
