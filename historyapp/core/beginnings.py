"""The beginnings of long texts that represent values, without the rest of these texts.

An append waits for its previews, and one entry can have 32 MB.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from historyapp.core.text import PIECE_LENGTH, clean


class _Style(NamedTuple):
    """How JSON is written."""

    encode: Callable[[Any], str]
    comma: str
    colon: str
    clean: Callable[[str], str]
    """Applied to every text."""


_COMPACT = _Style(json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode, ",", ":", clean)
_SPACED = _Style(json.JSONEncoder(ensure_ascii=False).encode, ", ", ": ", str)


def beginning(parts: Iterable[str], length: int) -> str:
    """The parts, joined until there are more than ``length`` characters."""
    taken, size = list[str](), 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size > length:
            break
    return "".join(taken)


def json_beginning(value: Any, length: int) -> str:
    """The beginning of :func:`historyapp.core.json.json_text`: more than ``length`` characters, or all."""
    return beginning(_json_parts(value, _COMPACT), length)


def spaced_json_parts(value: Any) -> Iterator[str]:
    """The parts of :func:`historyapp.core.json.text_or_json`."""
    if isinstance(value, str):
        yield value
    else:
        yield from _json_parts(value, _SPACED)


def _json_parts(value: Any, style: _Style) -> Iterator[str]:
    """The text in parts. A function that calls itself would pass each part through all levels around it."""
    levels: list[Iterator[Any]] = [_level_parts(value, style)]
    while levels:
        part = next(levels[-1], None)
        if part is None:
            levels.pop()
        elif isinstance(part, str):
            yield part
        else:
            levels.append(_level_parts(part[0], style))


def _level_parts(value: Any, style: _Style) -> Iterator[str | tuple[Any]]:
    """The parts of a value. A list or object in it is yielded as a tuple that contains it.

    Cleaning a value of a million lists takes half a second, so each part is cleaned.
    """
    if isinstance(value, dict) and value:
        cleaned = {style.clean(name): item for name, item in value.items()}  # two names may become one
        for number, (name, item) in enumerate(cleaned.items()):
            yield style.comma if number else "{"
            yield from _string_parts(name, style)
            yield style.colon
            yield (item,)
        yield "}"
    elif isinstance(value, (list, tuple)) and value:
        for number, item in enumerate(value):
            yield style.comma if number else "["
            yield (item,)
        yield "]"
    elif isinstance(value, str):
        yield from _string_parts(value, style)
    else:
        yield style.encode(value)


def _string_parts(text: str, style: _Style) -> Iterator[str]:
    """A text as JSON in parts: a whole one of 31 MB would take up to 0.5 GB, within a transaction."""
    yield '"'
    for start in range(0, len(text), PIECE_LENGTH):
        yield style.encode(style.clean(text[start : start + PIECE_LENGTH]))[1:-1]
    yield '"'


def repr_parts(value: Any, length: int) -> Iterator[str]:
    """The ``repr`` of a JSON value in parts. Only the first ``length`` characters are correct."""
    if isinstance(value, str):
        yield _quoted(value, length)
    elif isinstance(value, dict) and value:
        for number, (name, item) in enumerate(value.items()):
            yield ", " if number else "{"
            yield from repr_parts(name, length)
            yield ": "
            yield from repr_parts(item, length)
        yield "}"
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield ", " if number else "["
            yield from repr_parts(item, length)
        yield "]"
    else:
        yield repr(value)


def _quoted(text: str, length: int) -> str:
    if len(text) <= length:
        return repr(text)
    # The kind of quotes depends on the quotes in the whole text.
    quotes = ("'" if "'" in text else "") + ('"' if '"' in text else "")
    return repr(text[:length] + quotes)
