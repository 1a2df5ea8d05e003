from typing import Any

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Skipped
from historyapp.core.importers.json_document import (
    Record,
    known,
    listing,
    mapping,
    read_document,
    records,
    text,
)
from historyapp.core.json import dump_json
from tests.core.importers.reading import source


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"in": value}
    return value


def test_a_document_is_read_from_its_start() -> None:
    item = source({"a": [1]})
    item.stream.read()
    assert read_document(item) == {"a": [1]}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'["\xff"]', ["\udcff"]),
        (b'["\\ud800\\u0000"]', ["\ud800\x00"]),
        (b"[NaN, Infinity, -Infinity, 1e999]", [None] * 4),
        (b'["line\nbreak\x1b"]', ["line\nbreak\x1b"]),
    ],
)
def test_what_agents_write_is_read(raw: bytes, value: Any) -> None:
    read = read_document(source(raw))
    assert read == value
    dump_json(read)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1,]", b"\x00", b"[" * 100_000, b"[" + b"9" * 5000 + b"]", b"{} {}"]
)
def test_what_is_no_document_is_refused_by_its_name(raw: bytes) -> None:
    with pytest.raises(UnreadableTranscript, match=r"run\.json"):
        read_document(source(raw))


def test_records_that_cannot_be_stored_are_named_by_their_place() -> None:
    found = list(records([{"a": 1}, 7, nested(300), {"b": 2}]))
    assert [found[0], found[3]] == [Record(1, {"a": 1}), Record(4, {"b": 2})]
    assert [item.line for item in found if isinstance(item, Skipped)] == [2, 3]


def test_values_of_another_type_count_as_nothing() -> None:
    values: list[Any] = [None, "x", [1], {"a": 1}, 7]
    assert list(map(mapping, values)) == [{}, {}, {}, {"a": 1}, {}]
    assert list(map(listing, values)) == [[], [], [1], [], []]
    assert list(map(text, values)) == ["", "x", "", "", ""]


def test_metadata_holds_what_says_something_and_can_be_stored() -> None:
    assert known(a=1, b=None, c="", d=[], e={}, f=0, g=False, h=nested(300)) == {"a": 1, "f": 0, "g": False}
