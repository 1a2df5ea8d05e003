"""Long JSON is written in parts, between which other threads can run, and read without garbage collection."""

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from historyapp.core.batches import batches

PART = 1 << 16
"""Characters of a value that are written in one call."""
_VALUE, _SHORT = 8, 512
"""The characters that each value counts in addition to its text, and those of a short list or object."""
_MAX_LEVELS = 1_000
COMPACT = (",", ":")

encode = json.JSONEncoder(check_circular=False, allow_nan=False, separators=COMPACT).encode
"""Compact JSON in ASCII."""

_Write = Callable[[Any], str]


def encoded_parts(value: Any, write: _Write = encode) -> Iterator[str]:
    """The JSON of :func:`encode` in parts, between which other threads can run. Writing 30 MB at once would
    stop them for half a second.

    Args:
        write: another function that writes compact JSON. It is called with parts of the value.
    """
    return _parts(value, _measure(value), write)


def _measure(value: Any) -> dict[int, int]:
    """The characters of lists and objects, without escapes, by id. Short ones are left out.

    All are measured in one pass, because a list would be visited again for each list around it. The function
    does not call itself: below 190 levels, CPython 3.11 allocated memory for each call, and a million values
    took 12 s.

    Raises:
        RecursionError: for a value that contains itself.
    """
    sizes, around = dict[int, int](), list[tuple[Any, Iterator[Any], int]]()
    container, items, size = None, iter((value,)), 0
    while True:
        for item in items:
            size += _VALUE
            if isinstance(item, str):
                size += len(item)
            elif isinstance(item, (dict, list, tuple)):
                around.append((container, items, size))
                container, size = item, 0
                items = chain(item, item.values()) if isinstance(item, dict) else iter(item)
                break
        else:
            if not around:
                return sizes
            if size > _SHORT:
                sizes[id(container)] = size
            inner = size
            container, items, size = around.pop()
            size += inner
        if len(around) > _MAX_LEVELS:
            raise RecursionError("The value contains itself, or has too many levels.")


def _size(value: Any, sizes: Mapping[int, int]) -> int:
    if isinstance(value, str):
        return _VALUE + len(value)
    return sizes.get(id(value), _SHORT) if isinstance(value, (dict, list, tuple)) else _VALUE


def _parts(value: Any, sizes: Mapping[int, int], write: _Write) -> Iterator[str]:
    """The parts of a value. ``sizes``: the result of :func:`_measure`."""
    if _size(value, sizes) <= PART:
        yield write(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), PART):
            yield write(value[start : start + PART])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        yield from _object_parts(value, sizes, write)
    else:
        yield from _list_parts(value, sizes, write)


def _list_parts(items: Iterable[Any], sizes: Mapping[int, int], write: _Write) -> Iterator[str]:
    begin = "["
    for batch in batches(items, lambda item: _size(item, sizes), PART):
        yield begin
        if len(batch) == 1:
            yield from _parts(batch[0], sizes, write)
        else:
            yield write(batch)[1:-1]
        begin = ","
    yield "]"


def _object_parts(fields: Mapping[Any, Any], sizes: Mapping[int, int], write: _Write) -> Iterator[str]:
    begin = "{"
    for batch in batches(fields.items(), lambda field: _size(field[0], sizes) + _size(field[1], sizes), PART):
        yield begin
        if len(batch) == 1:
            name, item = batch[0]
            yield from _name_parts(name, sizes, write)
            yield from _parts(item, sizes, write)
        else:
            yield write(dict(batch))[1:-1]
        begin = ","
    yield "}"


def _name_parts(name: Any, sizes: Mapping[int, int], write: _Write) -> Iterator[str]:
    if not isinstance(name, str):
        yield write({name: 0})[1:-2]  # a number or null, which becomes a text
        return
    yield from _parts(name, sizes, write)
    yield ":"


def without_collections(parse: Callable[[str], Any], text: str) -> Any:
    """Parses a long text while the garbage collector does not run.

    Each list and object of the text is new, and no cycle of them exists yet. The collector would visit them
    again and again: this took up to eight times as long as parsing, and stopped all threads for seconds.

    It runs again at the end, also while another thread parses. A thread that restored what it had found would
    turn it off for ever, if the other thread had turned it on in between.
    """
    gc.disable()
    try:
        return parse(text)
    finally:
        gc.enable()
