"""Code that a tool returned with line numbers before its lines, as ``cat -n`` does."""

import re
from typing import NamedTuple

_NUMBER = re.compile(r" {0,9}(\d{1,7})(?:→|\t|: ?|\| ?)")
_MOST_BEFORE = 10
"""The most lines before the first number."""


class NumberedCode(NamedTuple):
    """Numbered lines within a text."""

    before: str
    first_line: int
    code: str
    after: str


def numbered_code(text: str) -> NumberedCode | None:
    """The first numbered lines of a text without their numbers; None where no two lines follow each other."""
    lines = text.split("\n")
    for start in range(min(_MOST_BEFORE, len(lines))):
        first = _NUMBER.match(lines[start])
        if first is None:
            continue
        code, number = [lines[start][first.end() :]], int(first[1])
        for line in lines[start + 1 :]:
            found = _NUMBER.match(line)
            if found is None or int(found[1]) != number + len(code):
                break
            code.append(line[found.end() :])
        end = start + len(code)
        if len(code) > 1 or len(lines) == 1:
            before, after = "\n".join(lines[:start]), "\n".join(lines[end:])
            return NumberedCode(before, number, "\n".join(code), after)
    return None
