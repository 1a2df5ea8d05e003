"""The memory of JSON values is counted as it is."""

import tracemalloc
from collections.abc import Callable
from sys import getsizeof
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.json import dump_json, load_dumped
from historyapp.core.json_memory import memory_of

MANY = 5_000
SHAPES: dict[str, Callable[[int], Any]] = {
    "empty lists": lambda number: [],
    "empty objects": lambda number: {},
    "lists of lists": lambda number: [[number, []]],
    "objects in objects": lambda number: {"a": {"b": [number, {"c": []}]}},
    "integers": lambda number: 1000 + number,
    "long integers": lambda number: 10**40 + number,
    "floats": lambda number: number + 0.5,
    "short texts": lambda number: f"ab{number}",
    "accents": lambda number: f"\u00fc{number}",
    "Chinese": lambda number: f"\u4e2d{number}",
    "emoji": lambda number: f"\U0001f600{number}",
    "long texts": lambda number: f"{number} " * 50,
    "long texts with an emoji": lambda number: f"{number} " * 50 + "\U0001f600",
}
NAMES = (1, 2, 5, 8, 10, 16, 20, 30, 32, 33, 40, 60)


def taken_by(stored: str) -> tuple[Any, int]:
    """The value of a JSON text, and the bytes that it takes."""
    tracemalloc.start()
    try:
        value = load_dumped(stored)
        return value, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", SHAPES)
def test_values_count_with_the_memory_that_they_take(shape: str) -> None:
    value, taken = taken_by(dump_json([SHAPES[shape](number) for number in range(MANY)]))
    assert taken / 1.1 < memory_of(value) < 1.5 * taken


@pytest.mark.parametrize("length", NAMES)
def test_names_count_with_the_memory_that_they_take(length: int) -> None:
    objects = [{f"{number}_".rjust(length, "x")[-length:]: number} for number in range(MANY)]
    value, taken = taken_by(dump_json(objects))
    assert taken / 1.1 < memory_of(value) < 2 * taken


def test_many_names_of_one_object_count() -> None:
    value, taken = taken_by(dump_json({f"{number}".rjust(20, "x"): number for number in range(MANY)}))
    assert taken / 1.1 < memory_of(value) < 1.5 * taken


def test_shared_values_count_each_time() -> None:
    """Small integers and names that repeat take less."""
    value, taken = taken_by(dump_json([{"x": number % 10, "y": 1} for number in range(MANY)]))
    assert taken < memory_of(value) < 2 * taken


def test_code_and_json_within_a_text_count_as_a_text() -> None:
    code = "for item in items[1:]:\n    print(item, rows[item])\n" * 1_000
    points = dump_json([{"x": number % 10, "y": 1} for number in range(MANY)])
    for text in (code, points):
        assert len(text) < memory_of({"outputs": text}) < 1.1 * len(text)


def sum_of_sizes(value: Any) -> int:
    members = [*value, *value.values()] if isinstance(value, dict) else value
    return getsizeof(value) + (sum(map(sum_of_sizes, members)) if isinstance(value, (dict, list)) else 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda values: (
            st.lists(values, max_size=12) | st.dictionaries(st.text(max_size=3), values, max_size=12)
        ),
    )
)
def test_each_value_counts_once(value: Any) -> None:
    assert memory_of(value) == sum_of_sizes(value)
