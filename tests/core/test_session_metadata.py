"""Metadata that does not fit into the limit loses its largest fields."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.json import dump_json
from historyapp.core.session_metadata import MAX_METADATA, fitting_metadata
from tests.examples import examples

VALUES = st.dictionaries(st.text(max_size=9), st.integers(0, 40_000).map(lambda length: "x" * length))


def size_of(metadata: dict[str, Any]) -> int:
    return len(dump_json(metadata))


def test_metadata_of_the_largest_size_is_kept() -> None:
    metadata = {"a": "x" * (MAX_METADATA - len('{"a":""}'))}
    assert size_of(metadata) == MAX_METADATA
    assert fitting_metadata(metadata) == (metadata, {})
    assert fitting_metadata({"a": metadata["a"] + "x"}) == ({}, {"a": MAX_METADATA + 1})


def test_characters_count_as_they_are_stored() -> None:
    assert fitting_metadata({"a": "é" * 10_000})[1] == {}
    assert list(fitting_metadata({"a": "é" * 11_000})[1]) == ["a"]


def test_the_largest_fields_are_left_out() -> None:
    metadata = {"cwd": "/work", "tools": "x" * 60_000, "info": "y" * 50_000, "version": "1"}
    kept, left_out = fitting_metadata(metadata)
    assert list(kept) == ["cwd", "info", "version"]
    assert list(left_out) == ["tools"]


@settings(max_examples=examples(100))
@given(VALUES)
def test_what_is_kept_fits_and_nothing_is_left_out_without_need(metadata: dict[str, Any]) -> None:
    kept, left_out = fitting_metadata(metadata)
    assert size_of(kept) <= MAX_METADATA
    assert kept.keys() | left_out.keys() == metadata.keys()
    assert not left_out or size_of(metadata) > MAX_METADATA
    for name in left_out:
        smaller = {other: value for other, value in metadata.items() if len(value) <= len(metadata[name])}
        assert size_of({**kept, **smaller}) > MAX_METADATA
