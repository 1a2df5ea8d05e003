"""Reads a transcript file as JSON: line by line, as one document, or only its head.

Agents leave files that are truncated, concatenated or have a wrong encoding. Each part that cannot be read is
skipped with its line number, and everything else is read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, BinaryIO, NamedTuple

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Head, LinesRead, Skipped, Source
from historyapp.core.json import (
    MAX_RECORD_DEPTH,
    TooDeep,
    depth_exceeds,
    nested_deeper,
    parse_lenient,
    parse_next,
    parse_object,
)

MAX_LINE = 128 * 1024 * 1024
"""Bytes. A longer line is skipped without being read into memory."""

_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_MAX_RESTARTS = 100
_MAX_RESTART_LENGTH = 1024 * 1024
HEAD_SIZE = 256 * 1024
"""Bytes. A line that is longer is read to its end."""


class SourceRecord(NamedTuple):
    """One JSON object of a file."""

    number: int
    """Its line or its index in a list, from 1. Several records may be on one line."""
    data: dict[str, Any]


@dataclass(slots=True)
class LineCounter:
    """Counts the lines of a file while they are read."""

    total: int = 0
    blank: int = 0

    def end(self) -> Iterator[LinesRead]:
        """The operation that ends the file; none if it has no lines."""
        if self.total:
            yield LinesRead(self.total, self.blank)


def read_lines(
    stream: BinaryIO,
    max_length: int = MAX_LINE,
    max_depth: int = MAX_RECORD_DEPTH,
    *,
    counter: LineCounter | None = None,
) -> Iterator[SourceRecord | Skipped]:
    """The file's objects from its start, in order. Blank lines have a number and are not yielded.

    Bytes that are not UTF-8 become lone surrogates (``surrogateescape``), so that they can be restored. NaN
    and infinities become null, because JSON cannot represent them. ``max_length`` is in bytes, ``max_depth``
    in levels of nesting.
    """
    stream.seek(0)
    number, counter = 0, counter or LineCounter()
    while raw := stream.readline(max_length + 1):
        number += 1
        counter.total = number
        if len(raw) > max_length and not raw.endswith(b"\n"):
            while (part := stream.readline(_CHUNK)) and not part.endswith(b"\n"):
                pass
            yield Skipped(number, f"longer than {max_length} bytes")
            continue
        record = parse_object(raw)
        if record is not None and not nested_deeper(record, raw, max_depth):
            yield SourceRecord(number, record)
            continue
        text = raw.removeprefix(_BOM).decode("utf-8", "surrogateescape").strip()
        counter.blank += not text
        for value in _values(text, max_depth):
            if isinstance(value, dict):
                yield SourceRecord(number, value)
            else:
                yield Skipped(number, value if isinstance(value, str) else "not a JSON object")


def _values(text: str, max_depth: int) -> Iterator[Any]:
    """The JSON values of one line, in order. A string is the error of a value."""
    at: int | None = 0
    while at is not None and at < len(text):
        try:
            value, end = parse_next(text, at)
        except TooDeep:
            yield f"nested deeper than {max_depth} levels"
            return
        except ValueError as fault:
            if not isinstance(fault, JSONDecodeError):
                yield str(fault)
            elif fault.pos >= len(text) or fault.msg.startswith("Unterminated string"):
                yield "truncated"
            else:
                yield f"not JSON: {fault.msg} at character {fault.pos + 1}"
            at = _restart(text, at)
            continue
        if isinstance(value, str):
            yield "not a JSON object"
        elif nested_deeper(value, text[at:end], max_depth):
            yield f"nested deeper than {max_depth} levels"
        else:
            yield value
        at = end
        while at < len(text) and text[at].isspace():
            at += 1


def _restart(text: str, failed_at: int) -> int | None:
    """The start of a complete record after a truncated one, which a crash can leave on the same line."""
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


def read_document(source: Source) -> Any:
    """The file as one JSON value.

    Raises:
        UnreadableTranscript: if it is not JSON.
    """
    source.stream.seek(0)
    try:
        return parse_document(source.stream.read())
    except ValueError as fault:
        raise UnreadableTranscript(f"{source.name} is not one JSON document: {fault}") from None


def parse_document(data: bytes) -> Any:
    """The JSON value of ``data``, parsed as leniently as JSON lines.

    Raises:
        ValueError: if it is not JSON, or nested too deep for Python's parser.
    """
    return parse_lenient(data.removeprefix(_BOM).decode("utf-8", "surrogateescape"))


def records(items: Iterable[Any]) -> Iterator[SourceRecord | Skipped]:
    """The objects in a list, in order. Other values and objects that are nested too deep are skipped."""
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            yield Skipped(number, "not a JSON object")
        elif depth_exceeds(item, MAX_RECORD_DEPTH):
            yield Skipped(number, f"nested deeper than {MAX_RECORD_DEPTH} levels")
        else:
            yield SourceRecord(number, item)


def present_fields(**fields: Any) -> dict[str, Any]:
    """The fields whose value is not empty (0 is kept), without values that are nested too deep to store."""
    return {
        name: value
        for name, value in fields.items()
        if (value or value == 0)
        and not (isinstance(value, (dict, list)) and depth_exceeds(value, MAX_RECORD_DEPTH))
    }


def head_of(source: Source) -> Head:
    """The first lines of a file of JSON lines, or the value of a file with a single JSON value."""
    source.stream.seek(0)
    is_pretty_printed = source.stream.readline(8).removeprefix(_BOM).strip() in (b"{", b"[")
    if is_pretty_printed and (document := _document(source)) is not None:
        return Head(source.name, (), document)
    lines: list[Mapping[str, Any]] = []
    broken = 0
    for item in read_lines(source.stream):
        if isinstance(item, SourceRecord):
            lines.append(item.data)
        else:
            broken += 1
        if source.stream.tell() >= HEAD_SIZE:
            break
    if len(lines) == 1 and not broken and not source.stream.read(1):
        return Head(source.name, tuple(lines), lines[0])
    if len(lines) <= broken and not is_pretty_printed:  # most lines of a value in several lines are not JSON
        document = _document(source)
        if document is not None:
            return Head(source.name, (), document)
    return Head(source.name, tuple(lines))


def _document(source: Source) -> Any:
    source.stream.seek(0)
    start = source.stream.read(64).removeprefix(_BOM).lstrip()
    if not start.startswith((b"{", b"[")):
        return None
    source.stream.seek(0)
    try:
        return parse_document(source.stream.read())
    except ValueError:
        return None
