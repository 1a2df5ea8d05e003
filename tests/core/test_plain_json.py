"""Short plain values are written by msgspec, with the result of Python's own module."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from historyapp.core.json import compact_json, json_text
from historyapp.core.plain_json import is_plain, plain_size
from historyapp.core.text import clean_value

ANY_TEXT = st.text(st.characters())
"""With lone surrogates."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda items: st.lists(items) | st.dictionaries(ANY_TEXT, items) | st.tuples(items),
)


@given(VALUES)
@example("\x00\x7f\u2028\ud800")
@example({"\x00": 1, "\ud800": 2, "b": "\\u0000"})
@example([1e22, 1e-7, -0.0, 10**400])
def test_compact_json_and_texts_for_models_are_as_in_python(value: Any) -> None:
    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    assert compact_json(value) == dumped(value)
    assert json_text(value) == dumped(clean_value(value))


def test_a_short_plain_value_is_neither_measured_nor_cleaned_item_by_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For a step of 1,000 tool calls, this took a fifth of a context's time."""
    for name in ("_write_compact", "is_larger", "clean_value"):
        monkeypatch.delattr(f"historyapp.core.json.{name}")
    arguments = {"path": "src/ä.py", "lines": [1, 2.5, None]}
    assert compact_json(arguments) == json_text(arguments) == '{"path":"src/ä.py","lines":[1,2.5,null]}'


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("four", 5),
        (7, 1),
        ({"ab": "c", "d": [1, {}]}, 8),
        ([[]] * 50, 21),
        ([""] * 50, 21),
        (dict.fromkeys("abc" * 9, 1), 6),
    ],
)
def test_the_size_of_a_plain_value_is_known_up_to_a_limit(value: Any, size: int) -> None:
    assert min(plain_size(value, 20), 21) == size


@pytest.mark.parametrize("value", [1e22, {1: "a"}, {"a": [b"b"]}, float("nan")])
def test_a_value_that_is_not_plain_counts_as_too_long(value: Any) -> None:
    assert not is_plain(value)
    assert plain_size(value, 20) > 20
