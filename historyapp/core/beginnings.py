"""The beginnings of long texts that represent values, without the rest of these texts.

An append waits for its previews, and one entry can have 32 MB.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from historyapp.core.text import clean_value

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
    return beginning(_JSON.iterencode(clean_value(value)), length)


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
