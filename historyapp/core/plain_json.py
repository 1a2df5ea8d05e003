"""Which values msgspec and Python's own module write as the same JSON."""

from typing import Any

PLAIN = {str, int, bool, type(None)}


def is_plain(value: Any) -> bool:
    """Whether it holds only texts, booleans, nulls, and numbers that are written without an exponent."""
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) is not str or (type(item) not in PLAIN and not is_plain(item)):
                return False
        return True
    if kind is list or kind is tuple:
        for item in value:  # noqa: SIM110  a generator takes twice as long for a short list
            if type(item) not in PLAIN and not is_plain(item):
                return False
        return True
    return kind in PLAIN or (kind is float and (value == 0 or 1e-4 <= abs(value) < 1e16))


def plain_size(value: Any, limit: int) -> int:
    """The characters of the value's texts and names, and one for each value in it.

    More than ``limit`` if there are more, or if the value is not plain. Takes time in proportion to the
    limit.
    """
    kind, size, items = type(value), 0, value
    if kind is dict:
        if len(value) > limit:
            return len(value)
        for name in value:
            if type(name) is not str:
                return limit + 1
            size += len(name)
        items = value.values()
    elif kind is not list and kind is not tuple:
        items = (value,)
    for item in items:
        kind = type(item)
        if kind is str:
            size += 1 + len(item)
        elif kind in PLAIN:
            size += 1
        elif kind is dict or kind is list or kind is tuple:
            size += 1 + plain_size(item, limit)
        else:
            size += 1 if is_plain(item) else limit + 1
        if size > limit:
            break
    return size
