"""Files of JSON lines with something wrong in them."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def mutilate(value: Any, draw: st.DrawFn) -> Any:
    """The same JSON, with one value at a random place replaced or left out."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 4)) == 0:
        return draw(VALUES)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutilate(value[at], draw), *value[at + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    if draw(st.integers(0, 3)) == 0:
        return {k: v for k, v in value.items() if k != key}
    return {**value, key: mutilate(value[key], draw)}


@st.composite
def mutilated_files(draw: st.DrawFn, lines: list[dict[str, Any]]) -> bytes:
    """The lines with values replaced or left out, in another order, and with bytes lost and put in."""
    records = list(lines)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(records) - 1))
        records[at] = mutilate(records[at], draw)
    if draw(st.booleans()):
        records = draw(st.permutations(records))
    raw = "\n".join(json.dumps(item) for item in records).encode()
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.binary(max_size=2)) + raw[at + draw(st.integers(0, 40)) :]
    return raw


def wrong_values(lines: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The lines with one value in them, at any depth, replaced by one of another type or left out."""
    for at, line in enumerate(lines):
        for changed in _changed(line):
            yield [*lines[:at], changed, *lines[at + 1 :]]


def _changed(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {k: v for k, v in value.items() if k != key}
            for changed in _changed(inner):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            for changed in _changed(inner):
                yield [*value[:at], changed, *value[at + 1 :]]
    yield from (
        None,
        True,
        10**400,
        -1.5,
        "\ud800\0",
        "",
        [],
        [[]],
        [7, "x"],
        {},
        {"type": []},
        {"x": {"y": 1}},
    )
