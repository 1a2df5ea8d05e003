"""Transcripts that are one JSON value: read whole, then looked into without trusting any type."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Skipped, Source
from historyapp.core.json import MAX_RECORD_DEPTH, depth_exceeds, parse_lenient

_BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """One object of a list, with its place in it, from 1."""

    number: int
    data: dict[str, Any]


def read_document(source: Source) -> Any:
    """The file as one JSON value.

    Raises:
        UnreadableTranscript: when it is not one.
    """
    source.stream.seek(0)
    try:
        return parse_document(source.stream.read())
    except ValueError as fault:
        raise UnreadableTranscript(f"{source.name} is not one JSON document: {fault}") from None


def parse_document(data: bytes) -> Any:
    """The value that ``data`` holds, read as leniently as JSON lines are (see ``jsonl``).

    Raises:
        ValueError: when it is not JSON, or nested deeper than Python's parser goes.
    """
    text = data.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    return parse_lenient(text)


def records(items: Iterable[Any]) -> Iterator[Record | Skipped]:
    """The objects of a list in order; what is none, or cannot be stored, is named by its index."""
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            yield Skipped(number, "not a JSON object")
        elif depth_exceeds(item, MAX_RECORD_DEPTH):
            yield Skipped(number, f"nested deeper than {MAX_RECORD_DEPTH} levels")
        else:
            yield Record(number, item)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def known(**fields: Any) -> dict[str, Any]:
    """Metadata: those fields that say something and can be stored."""
    return {
        name: value
        for name, value in fields.items()
        if (value or value == 0)
        and not (isinstance(value, (dict, list)) and depth_exceeds(value, MAX_RECORD_DEPTH))
    }
