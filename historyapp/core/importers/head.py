"""The beginning of a file, read just far enough to tell its format."""

from collections.abc import Mapping
from typing import Any

from historyapp.core.importers.base import Head, Source
from historyapp.core.importers.json_document import parse_document
from historyapp.core.importers.jsonl import Line, read_lines

HEAD_SIZE = 256 * 1024
"""Bytes. A line that is longer is read to its end."""


def head_of(source: Source) -> Head:
    """The first lines of a file that holds JSON lines, or the whole of one that holds a single JSON value."""
    lines: list[Mapping[str, Any]] = []
    broken = 0
    for item in read_lines(source.stream):
        if isinstance(item, Line):
            lines.append(item.record)
        else:
            broken += 1
        if source.stream.tell() >= HEAD_SIZE:
            break
    if len(lines) == 1 and not broken and not source.stream.read(1):
        return Head(source.name, tuple(lines), lines[0])
    if len(lines) <= broken:  # not line-delimited: a pretty-printed value breaks on most of its lines
        document = _document(source)
        if document is not None:
            return Head(source.name, (), document)
    return Head(source.name, tuple(lines))


def _document(source: Source) -> Any:
    source.stream.seek(0)
    start = source.stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith((b"{", b"[")):
        return None
    source.stream.seek(0)
    try:
        return parse_document(source.stream.read())
    except ValueError:
        return None
