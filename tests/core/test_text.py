"""Any text goes in and comes out, and what a database cannot hold is replaced where it is only shown."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import KINDS, DebugLog, dump_body, load_body
from historyapp.core.text import MAX_DEPTH, clean, depth_exceeds, dump_json, dump_parsed, load_dumped, preview

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
@pytest.mark.parametrize("dump", [dump_json, dump_parsed])
def test_numbers_that_json_lacks_are_refused(dump: Callable[[object], str], value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump(value)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | ANYTHING,
        lambda values: st.lists(values, max_size=3) | st.dictionaries(ANYTHING, values, max_size=3),
        max_leaves=8,
    )
)
def test_what_was_parsed_is_dumped_to_the_same(value: object) -> None:
    dumped = dump_parsed(value)
    assert dumped.isascii()
    assert repr(json.loads(dumped)) == repr(json.loads(dump_json(value)))


@pytest.mark.parametrize(
    "value", [10**400, 2**64, -(2**63) - 1, [[1]] * 100, nested(500, lambda x: [x]), "\x7f", 'a\nb"\\']
)
def test_odd_values_are_dumped_to_the_same(value: object) -> None:
    assert json.loads(dump_parsed(value)) == json.loads(dump_json(value))


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: [[1], {"b": x}]])
def test_depth_is_found_without_recursion(wrap: Callable[[object], object]) -> None:
    per_wrap = 2 if isinstance(wrap(0), list) and wrap(0) != [0] else 1
    assert not depth_exceeds(nested(MAX_DEPTH // per_wrap, wrap))
    assert depth_exceeds(nested(MAX_DEPTH // per_wrap + 1, wrap))
    assert depth_exceeds(nested(50_000, wrap))


def test_every_kind_can_be_loaded_and_no_other() -> None:
    minimal: dict[str, dict[str, Any]] = {
        "system_instruction": {"text": "x"},
        "memory_notebook": {"content": "x"},
        "model_input": {"content": "x"},
        "model_output": {},
        "tool_results": {"results": [{"status": "success"}]},
        "review": {},
        "debug_log": {"category": "x", "message": "y"},
        "rewind": {"to_position": 0, "spans": []},
    }
    assert set(minimal) == set(KINDS)
    for kind, data in minimal.items():
        assert load_body(kind, data).kind == kind
        with pytest.raises(ValueError, match="Extra inputs"):
            load_body(kind, {**data, "surprise": 1})
    with pytest.raises(ValueError, match="kind"):
        load_body("message", {})


@given(ANYTHING | st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_what_was_dumped_is_had_back(value: object) -> None:
    for dump in (dump_json, dump_parsed):
        assert repr(load_dumped(dump({"a": [value]}))) == repr({"a": [value]})


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        load_dumped("{")
