"""JSON as a tree."""

import re
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.text import visible
from dashboard.rendering.tree import MAX_NODES, MAX_ROWS, tree

anything = st.text(st.characters(codec=None, exclude_categories=()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner) | st.dictionaries(anything, inner),
    max_leaves=20,
)


def words(value: Any, characters: int = 4_000) -> str:
    return " ".join(re.sub("<[^>]*>", " ", tree(value, characters)[0]).split())


@given(json_values, st.integers(0, 100))
def test_any_value_can_be_drawn_in_any_room(value: Any, characters: int) -> None:
    html, _ = tree(value, characters)
    html.encode()
    tags = re.findall("<[^>]*>", html)
    assert all(
        re.fullmatch(r'</?\w+(?: (?:class="[a-z -]+"|dir="auto"|scope="col"|open))*>', tag) for tag in tags
    )


def test_levels_open_and_close() -> None:
    html, is_whole = tree({"a": {"b": {"c": 1}}, "d": "text"}, 4_000)
    assert is_whole
    assert html.count("<details open>") == 1
    assert html.count("<details>") == 1
    assert words({"a": {"b": [True, None]}}) == "a {1} b [2] 0 true 1 null"


def test_similar_objects_are_a_table() -> None:
    assert words([{"no": 1, "to": "JFK"}, {"no": 2}]) == "no to 1 JFK 2"
    assert "<table>" not in tree([{"no": 1, "to": {}}, {"no": 2, "to": {}}], 4_000)[0]
    assert "<table>" not in tree([{"no": 1, "to": 2}, 5], 4_000)[0]


def test_values_that_do_not_fit_are_left_out_and_counted() -> None:
    for value in ([*range(MAX_NODES + 1)], "x" * 5_000, [{"a": 1, "b": 2}] * (MAX_ROWS + 1), nested(20)):
        html, is_whole = tree(value, 4_000)
        assert not is_whole
        assert len(html) < 20_000


def nested(levels: int) -> Any:
    return {"x": nested(levels - 1)} if levels else 1


def test_only_the_beginning_of_a_long_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()

    def noted(text: str) -> str:
        read.append(len(text))
        return visible(text)

    monkeypatch.setattr(import_module("dashboard.rendering.tree"), "visible", noted)
    html, is_whole = tree({"a" * 100_000: "\x1b[0m" * 100_000, "b": [{"c" * 100_000: 1, "d": 2}] * 2}, 4_000)
    assert not is_whole
    assert max(read) < 5_000
    assert len(html) < 2_000
