"""Counts the values of JSON, most of them without reading it."""

from collections.abc import Iterator
from string import digits
from typing import Any, NamedTuple

MANY_DIGITS = 100_000
"""Digits in long numbers of one JSON text. Reading and writing 4 MB of them stops all other threads for a
third of a second.
"""
MANY_VALUES = 100_000
"""Values of one JSON text that other threads wait for less than 0.1 s while one call reads them."""
_DIGITS = 500


def holds_more_values(text: str, limit: int) -> bool:
    """Whether a JSON text has more than ``limit`` commas and opening brackets outside of strings.

    Each value has one of them. They are first counted in the whole text, strings included: most texts have
    so few that no scan is needed.
    """
    if len(text) <= limit or text.count(",") + text.count("[") + text.count("{") <= limit:
        return False
    bare = _without_escapes(text)
    if bare.count('"') > 4 * (limit + 1):  # a value has two strings at most, its name and itself
        return True
    return _holds_more(bare, limit, ",[{")


def holds_more_containers(text: str, limit: int) -> bool:
    """Whether a JSON text has more than ``limit`` lists and objects."""
    if len(text) <= limit or text.count("[") + text.count("{") <= limit:
        return False
    return _holds_more(_without_escapes(text), limit, "[{")


def holds_many_digits(text: str) -> bool:
    """Whether a JSON text has more than :data:`MANY_DIGITS` in long numbers.

    Only pieces that consist of digits are counted, so numbers of up to 998 digits may be missed.
    """
    if len(text) <= MANY_DIGITS:
        return False
    sample = text[::_DIGITS]
    if (
        _DIGITS * sum(sample.count(digit) for digit in digits) <= MANY_DIGITS
        or _DIGITS * sum(1 for _ in _digit_pieces(text)) <= MANY_DIGITS
    ):
        return False
    bare, quotes, before, found = _without_escapes(text), 0, 0, 0
    for start in _digit_pieces(bare):
        quotes += bare.count('"', before, start)
        before = start
        found += _DIGITS if quotes % 2 == 0 else 0  # otherwise it is in a string
        if found > MANY_DIGITS:
            return True
    return False


def _digit_pieces(text: str) -> Iterator[int]:
    starts = range(0, len(text) - _DIGITS + 1, _DIGITS)
    return (start for start in starts if text[start : start + _DIGITS].isdecimal())


def count_values(text: str, limit: int) -> int:
    """As :func:`holds_more_values`, but the number. Counting ends after more than ``limit``.

    Marks in strings count while they are so few that no scan is needed.
    """
    marks = text.count(",") + text.count("[") + text.count("{")
    if marks <= 100:
        return marks
    bare = _without_escapes(text)
    return limit + 1 if bare.count('"') > 4 * (limit + 1) else _count(bare, limit, ",[{")


class JsonCounts(NamedTuple):
    """The values within a value, and the lists and objects among them and the value itself."""

    values: int
    containers: int


def counts_of(value: Any) -> JsonCounts:
    """The counts of a value that was read from JSON."""
    values, containers, pending = 0, 0, [value] if isinstance(value, (dict, list)) else []
    while pending:
        container = pending.pop()
        values += len(container)
        containers += 1
        items = container.values() if isinstance(container, dict) else container
        pending += [item for item in items if isinstance(item, (dict, list))]
    return JsonCounts(values, containers)


def _without_escapes(text: str) -> str:
    """The text without escaped quotes. Each remaining quote begins or ends a string."""
    return text.replace("\\\\", "").replace('\\"', "")


def _holds_more(bare: str, limit: int, marks: str) -> bool:
    return _count(bare, limit, marks) > limit


def _count(bare: str, limit: int, marks: str) -> int:
    """The number of the marks outside of strings. Counting ends after more than ``limit``."""
    count = 0
    for start, end in _outside_of_strings(bare):
        count += sum(bare.count(mark, start, end) for mark in marks)
        if count > limit:
            break
    return count


def _outside_of_strings(bare: str) -> Iterator[tuple[int, int]]:
    """The places between the strings of a text without escaped quotes: start and end of each."""
    end = 0
    while (start := bare.find('"', end)) >= 0:
        yield end, start
        end = bare.find('"', start + 1) + 1 or len(bare)
    yield end, len(bare)
