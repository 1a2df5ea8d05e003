"""Code that a tool returned with line numbers before its lines, as ``cat -n`` does."""

import re
from typing import NamedTuple

from historyapp.core.text import MAX_READ

_NUMBER = re.compile(r" {0,9}(\d{1,7})(?:→|\t|: ?|\| ?)")
_MAX_BEFORE = 10
"""The maximum number of lines before the first number."""
_MAX_AFTER = 20
"""The maximum number of lines after the last number: Claude Code puts a reminder there."""
_END_LENGTH = 20_000
"""Characters at each end in which :func:`line_range` looks for the numbers."""


class NumberedCode(NamedTuple):
    """Numbered lines within a text."""

    before: str
    first_line: int
    code: str
    after: str


def numbered_code(text: str) -> NumberedCode | None:
    """The first numbered lines of a text, without their numbers. None if no two numbers are consecutive, and
    for a text of more than ``MAX_READ`` characters.
    """
    if len(text) > MAX_READ:
        return None
    lines = text.split("\n")
    for start in range(min(_MAX_BEFORE, len(lines))):
        first = _NUMBER.match(lines[start])
        if first is None:
            continue
        code, number = [lines[start][first.end() :]], int(first[1])
        for line in lines[start + 1 :]:
            match = _NUMBER.match(line)
            if match is None or int(match[1]) != number + len(code):
                break
            code.append(line[match.end() :])
        end = start + len(code)
        if len(code) > 1 or len(lines) == 1:
            before, after = "\n".join(lines[:start]), "\n".join(lines[end:])
            return NumberedCode(before, number, "\n".join(code), after)
    return None


def line_range(text: str) -> tuple[int, int] | None:
    """The first and the last line number of a text with numbered lines; None if they do not fit the number of
    lines.

    Only a few lines at both ends are read, because this runs when an agent appends the content of a file.
    """
    first = _first_number(text)
    last = _last_number(text) if first else None
    if first is None or last is None:
        return None
    return (first, last) if 0 <= last - first <= text.count("\n") else None


def _first_number(text: str) -> int | None:
    """The number of the first line that has one, if the next line has the next number or no other has one."""
    lines = text[:_END_LENGTH].split("\n", _MAX_BEFORE + 1)
    for start, line in enumerate(lines[:_MAX_BEFORE]):
        if match := _NUMBER.match(line):
            after = _NUMBER.match(lines[start + 1]) if start + 1 < len(lines) else None
            follows = after is not None and int(after[1]) == int(match[1]) + 1
            is_only = match[0].endswith(("→", "\t")) and not any(map(_NUMBER.match, lines[start + 1 :]))
            return int(match[1]) if follows or is_only or len(lines) == 1 else None
    return None


def _last_number(text: str) -> int | None:
    # The first part may be an incomplete line.
    lines = f"\n{text}"[-_END_LENGTH:].rsplit("\n", _MAX_AFTER)[1:]
    numbers = map(_NUMBER.match, reversed(lines))
    return next((int(match[1]) for match in numbers if match), None)
