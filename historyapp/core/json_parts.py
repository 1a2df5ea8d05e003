"""Long JSON is written in parts, between which other threads can run, and read without garbage collection."""

import gc
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

PART = 1 << 16
"""Characters of a long text that are written in one call."""
BATCH = 500
"""Items of a long list or object that are written in one call."""
COMPACT = (",", ":")

encode = json.JSONEncoder(check_circular=False, allow_nan=False, separators=COMPACT).encode
"""Compact JSON in ASCII."""


def encoded_parts(value: Any) -> Iterator[str]:
    """The JSON of :func:`encode` in parts, between which other threads can run. Writing 30 MB at once would
    stop them for half a second.
    """
    kind = type(value)
    if kind is str and len(value) > PART:
        yield '"'
        for start in range(0, len(value), PART):
            yield encode(value[start : start + PART])[1:-1]
        yield '"'
    elif kind is list and value:
        for start in range(0, len(value), BATCH):
            batch = value[start : start + BATCH]
            yield "," if start else "["
            if not any(map(_is_large, batch)):
                yield encode(batch)[1:-1]
                continue
            for place, item in enumerate(batch):
                if place:
                    yield ","
                yield from encoded_parts(item)
        yield "]"
    elif kind is dict and value:
        items = iter(value.items())
        begin = "{"
        while batch := dict(islice(items, BATCH)):
            if not any(map(_is_large, batch.values())):
                yield begin + encode(batch)[1:-1]
                begin = ","
                continue
            for name, item in batch.items():
                yield f"{begin}{encode({name: 0})[1:-2]}"
                yield from encoded_parts(item)
                begin = ","
        yield "}"
    else:
        yield encode(value)


def _is_large(value: Any) -> bool:
    """Whether a value may have a long JSON: a long text, or more than ten items, also within short lists and
    objects."""
    kind = type(value)
    if kind is str:
        return len(value) > PART
    if kind is list or kind is dict:
        return len(value) > 10 or any(map(_is_large, value if kind is list else value.values()))
    return False


def without_collections(parse: Callable[[str], Any], text: str) -> Any:
    """Parses a long text while the garbage collector does not run.

    Each list and object of the text is new, and no cycle of them exists yet. The collector would visit them
    again and again: this took up to eight times as long as parsing, and stopped all threads for seconds.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return parse(text)
    finally:
        if was_on:
            gc.enable()
