"""Any text goes in and comes out, and what a database cannot hold is replaced where it is only shown."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import KINDS, DebugLog, dump_body, load_body
from historyapp.core.text import MAX_DEPTH, clean, depth_exceeds, dump_json, load_dumped, preview
from tests.core.entries import sample

ANYTHING = st.text(st.characters())
"""Lone surrogates and NUL included."""


def nested(levels: int, wrap: Callable[[object], object]) -> object:
    value: object = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@given(ANYTHING)
def test_any_text_survives_json_in_ascii(text: str) -> None:
    dumped = dump_json({"text": text})
    assert dumped.isascii()
    assert json.loads(dumped) == {"text": text}
    body = DebugLog(category=text, message=text)
    assert load_body("debug_log", json.loads(dump_json(dump_body(body)))) == body


@given(ANYTHING)
def test_clean_text_can_be_stored_anywhere(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    cleaned.encode("utf-8")
    assert len(cleaned) == len(text)


@given(ANYTHING, st.integers(1, 50))
def test_a_preview_is_one_short_line(text: str, length: int) -> None:
    shown = preview(text, length)
    assert len(shown) <= length
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_numbers_that_json_lacks_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump_json(value)


@pytest.mark.parametrize("value", [uuid4(), datetime.now(UTC), b"bytes", {1, 2}, Decimal(1), object()])
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    for place in (value, [value], {"a": value}):
        with pytest.raises(TypeError):
            dump_json(place)


KEYS = ANYTHING | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    KEYS,
    lambda values: (
        st.lists(values, max_size=3) | st.tuples(values) | st.dictionaries(KEYS, values, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_json_is_written_as_python_itself_writes_it(value: object) -> None:
    assert dump_json(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(
    "value",
    [
        *(10**400, 2**64, -(2**63) - 1),
        *(0.0, -0.0, 1e16, 9999999999999998.0, -1e16, 1e-4, 9.999999999999999e-05, 1.2e-05, 5e-324),
        *(nested(500, lambda x: [x]), "\x7f", '\x1f\n"\\/', "é"),
    ],
)
def test_odd_values_are_written_as_python_itself_writes_them(value: object) -> None:
    assert dump_json(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: [[1], {"b": x}]])
def test_depth_is_found_without_recursion(wrap: Callable[[object], object]) -> None:
    per_wrap = 2 if isinstance(wrap(0), list) and wrap(0) != [0] else 1
    assert not depth_exceeds(nested(MAX_DEPTH // per_wrap, wrap))
    assert depth_exceeds(nested(MAX_DEPTH // per_wrap + 1, wrap))
    assert depth_exceeds(nested(50_000, wrap))


def test_every_kind_can_be_loaded_and_no_other() -> None:
    for kind in KINDS:
        data = dump_body(sample(kind))
        assert load_body(kind, data) == sample(kind)
        with pytest.raises(ValueError, match="Extra inputs"):
            load_body(kind, {**data, "surprise": 1})
    with pytest.raises(ValueError, match="kind"):
        load_body("message", {})


@given(VALUES)
def test_what_was_dumped_is_read_as_python_itself_reads_it(value: object) -> None:
    dumped = dump_json(value)
    assert repr(load_dumped(dumped)) == repr(json.loads(dumped))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        load_dumped("{")
