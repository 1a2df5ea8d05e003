"""Files of JSON lines as agents leave them: cut off, glued together, mis-encoded. One line at a time.

What can be read is given out; what cannot is named by its line, and the reader goes on.
"""

from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, BinaryIO, NamedTuple

from historyapp.core.importers.base import Skipped
from historyapp.core.json import MAX_RECORD_DEPTH, TooDeep, nested_deeper, parse_next, parse_object

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
    and infinities become null, because JSON cannot represent them. ``longest`` is in bytes, ``deepest`` in
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
        record = parse_object(raw)
        if record is not None and not nested_deeper(record, raw, deepest):
            yield Line(number, record)
            continue
        text = raw.removeprefix(_BOM).decode("utf-8", "surrogateescape").strip()
        for value in _values(text, deepest):
            if isinstance(value, dict):
                yield Line(number, value)
            else:
                yield Skipped(number, value if isinstance(value, str) else "not a JSON object")


def _drop_rest_of_line(stream: BinaryIO) -> None:
    while (part := stream.readline(_CHUNK)) and not part.endswith(b"\n"):
        pass


def _values(text: str, deepest: int) -> Iterator[Any]:
    """The JSON values of one line in order; a string in place of one says what is wrong there."""
    at: int | None = 0
    while at is not None and at < len(text):
        try:
            value, end = parse_next(text, at)
        except TooDeep:
            yield f"nested deeper than {deepest} levels"
            return
        except ValueError as fault:
            yield _reason(fault, text)
            at = _restart(text, at)
            continue
        if isinstance(value, str):
            yield "not a JSON object"
        elif nested_deeper(value, text, deepest):
            yield f"nested deeper than {deepest} levels"
        else:
            yield value
        at = end
        while at < len(text) and text[at].isspace():
            at += 1


def _reason(fault: ValueError, text: str) -> str:
    if not isinstance(fault, JSONDecodeError):
        return str(fault)
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
            _, end = parse_next(text, at)
        except ValueError:
            continue
        if end == len(text):
            return at
    return None
