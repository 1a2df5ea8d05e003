"""Files of JSON lines as agents leave them: cut off, glued together, mis-encoded. One line at a time.

What can be read is given out; what cannot is named by its line, and the reader goes on.
"""

import json
import sys
from collections.abc import Iterator
from json.decoder import JSONDecodeError
from math import isfinite
from typing import Any, BinaryIO, NamedTuple

import msgspec

from historyapp.core.arguments import MAX_RECORD_DEPTH as MAX_RECORD_DEPTH
from historyapp.core.arguments import arguments_of as arguments_of
from historyapp.core.arguments import parse_json as parse_json
from historyapp.core.importers.base import Skipped
from historyapp.core.text import depth_exceeds

MAX_LINE = 128 * 1024 * 1024
"""Bytes. A longer line is skipped without being read into memory."""

_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_MAX_RESTARTS = 100
_MAX_RESTART_LENGTH = 1024 * 1024


class Line(NamedTuple):
    """One JSON object of the file. Two that were glued together share their line's number."""

    number: int
    record: dict[str, Any]


def read_lines(
    stream: BinaryIO, longest: int = MAX_LINE, deepest: int = MAX_RECORD_DEPTH
) -> Iterator[Line | Skipped]:
    """The file's objects from its start, in order; blank lines count but say nothing.

    Bytes that are not UTF-8 become lone surrogates (``surrogateescape``), so that they can be had back; NaN
    and infinities become null, because JSON has no word for them. ``longest`` is in bytes, ``deepest`` in
    levels of nesting.
    """
    stream.seek(0)
    number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        if len(raw) > longest and not raw.endswith(b"\n"):
            _drop_rest_of_line(stream)
            yield Skipped(number, f"longer than {longest} bytes")
            continue
        record = _whole(raw, deepest)
        if record is not None:
            yield Line(number, record)
            continue
        text = raw.removeprefix(_BOM).decode("utf-8", "surrogateescape").strip()
        for value in _values(text, deepest):
            if isinstance(value, dict):
                yield Line(number, value)
            else:
                yield Skipped(number, value if isinstance(value, str) else "not a JSON object")


def _finite(text: str) -> float | None:
    value = float(text)
    return value if isfinite(value) else None


# strict=False lets bare control characters stand in strings: terminal output brings them along.
_LENIENT = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None, strict=False)
_FAST = msgspec.json.Decoder(dict[str, Any])
"""Refuses whatever the lenient decoder takes in its own way: surrogates, bad UTF-8, numbers beyond range."""


def _drop_rest_of_line(stream: BinaryIO) -> None:
    while (part := stream.readline(_CHUNK)) and not part.endswith(b"\n"):
        pass


def _whole(raw: bytes, deepest: int) -> dict[str, Any] | None:
    """The object that a line is, as fast as can be; None where it is none, or wants a closer look."""
    try:
        record = _FAST.decode(raw)
    except (ValueError, RecursionError):
        return None
    brackets = len(raw) - len(raw.translate(None, b"{["))  # counting them first spares most lines the walk
    return None if brackets > deepest and depth_exceeds(record, deepest) else record


def _too_deep(value: Any, text: str, deepest: int) -> bool:
    # Counting brackets first spares most lines the walk.
    return text.count("{") + text.count("[") > deepest and depth_exceeds(value, deepest)


def _values(text: str, deepest: int) -> Iterator[Any]:
    """The JSON values of one line in order; a string in place of one says what is wrong there."""
    at: int | None = 0
    while at is not None and at < len(text):
        try:
            value, end = _LENIENT.raw_decode(text, at)
        except RecursionError:
            yield f"nested deeper than {deepest} levels"
            return
        except ValueError as fault:
            yield _reason(fault, text)
            at = _restart(text, at)
            continue
        if isinstance(value, str):
            yield "not a JSON object"
        elif _too_deep(value, text, deepest):
            yield f"nested deeper than {deepest} levels"
        else:
            yield value
        at = end
        while at < len(text) and text[at].isspace():
            at += 1


def _reason(fault: ValueError, text: str) -> str:
    if not isinstance(fault, JSONDecodeError):
        return f"a number of more than {sys.get_int_max_str_digits():,} digits"
    if fault.pos >= len(text) or fault.msg.startswith("Unterminated string"):
        return "cut off in the middle"
    return f"not JSON: {fault.msg} at character {fault.pos + 1}"


def _restart(text: str, failed_at: int) -> int | None:
    """Where a whole record begins that was appended to one cut off by a crash: it reaches the line's end."""
    if len(text) > _MAX_RESTART_LENGTH:
        return None
    at = failed_at
    for _ in range(_MAX_RESTARTS):
        at = text.find('{"', at + 1)
        if at < 0:
            return None
        try:
            _, end = _LENIENT.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if end == len(text):
            return at
    return None
