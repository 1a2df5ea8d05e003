"""Arguments and results as people read them."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.blocks import TERMINAL, Folder
from dashboard.rendering.values import (
    INDENTED_CHARACTERS,
    INDENTED_LEVELS,
    INDENTED_VALUES,
    LONG_COMMAND,
    argument_values,
    content_text,
    output_blocks,
    pretty_json,
)

anything = st.text(st.characters(codec=None, exclude_categories=()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner) | st.dictionaries(anything, inner),
    max_leaves=20,
)
names = st.sampled_from(
    ["command", "path", "old_string", "new_string", "edits", "content", "code", "patch", "x"]
)


def languages(arguments: Any) -> dict[str, str]:
    """The language of each block by its label."""
    fields = argument_values(Folder(), "a", arguments)
    return {field.label: field.block.language for field in fields if field.block}


def texts(arguments: Any) -> dict[str, str]:
    fields = argument_values(Folder(), "a", arguments)
    return {field.label: field.block.text if field.block else field.text for field in fields}


@given(json_values | st.dictionaries(names, json_values))
def test_any_arguments_can_be_shown(arguments: Any) -> None:
    folder = Folder()
    fields = argument_values(folder, "a", arguments)
    for field in fields:
        if field.block:
            field.block.html.encode()
    keys = [field.block.key for field in fields if field.block]
    assert len(keys) == len(set(keys)) == len(folder.blocks)
    assert all(re.fullmatch(r"[-a-z0-9]+", key) for key in keys)


@given(json_values)
def test_any_output_can_be_shown(outputs: Any) -> None:
    for block in output_blocks(Folder(), "result-0", outputs):
        block.html.encode()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "ls | wc"}, {"command": "bash"}),
        ({"cmd": ["bash", "-lc", "ls"]}, {"cmd": "bash"}),
        ({"command": "apply_patch <<'E'\n*** Begin Patch"}, {"command": "diff"}),
        ({"patch": "--- a\n+++ b"}, {"patch": "diff"}),
        ({"path": "a.rs", "content": "fn main() {}"}, {"content": "rust"}),
        ({"code": "print(1)"}, {"code": "python"}),
        ({"path": "notes", "content": "two\nlines"}, {"content": "text"}),
        ({"options": {"a": ["x" * 100]}}, {"options": "json"}),
        ({"text": "two\nlines"}, {"text": TERMINAL}),
        ("*** Begin Patch\n+x", {"": "diff"}),
    ],
)
def test_values_are_shown_by_their_type(arguments: Any, expected: dict[str, str]) -> None:
    assert languages(arguments) == expected


def test_an_editors_command_is_not_a_shell_command() -> None:
    assert argument_values(Folder(), "a", {"command": "view", "path": "a.py"})[0].text == "view"


def test_a_script_in_a_shell_is_shown_as_the_script() -> None:
    assert texts({"command": ["bash", "-lc", "cd x && ls"]}) == {"command": "cd x && ls"}
    assert texts({"command": ["ls", "a b"]}) == {"command": "ls 'a b'"}


def test_short_values_are_beside_their_names() -> None:
    fields = argument_values(Folder(), "a", {"limit": 5, "all": True, "none": None, "ids": [1, 2]})
    assert [(field.label, field.text) for field in fields] == [
        ("limit", "5"),
        ("all", "true"),
        ("none", "null"),
        ("ids", "[1, 2]"),
    ]


def test_several_edits_are_several_diffs() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    fields = argument_values(Folder(), "a", {"file_path": "x.py", "edits": edits})
    assert [field.block.text for field in fields if field.block] == ["-a\n+b", "-c\n+d"]


def edited(folder: Folder, old: str, new: str) -> str:
    (field,) = argument_values(folder, "a", {"old_string": old, "new_string": new})
    assert field.block
    return field.block.text


def test_a_diff_keeps_unchanged_lines_and_names_no_files() -> None:
    assert edited(Folder(), "one\ntwo\nthree", "one\n2\nthree") == " one\n-two\n+2\n three"
    assert edited(Folder(), "", "new") == "+new"
    assert edited(Folder(), "same", "same") == ""


def test_too_many_arguments_are_one_json_text() -> None:
    assert languages({f"k{n}": n for n in range(500)}) == {"": "json"}


def test_content_parts_are_joined_and_images_named() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "data": "x" * 500}]
    assert content_text(parts).startswith("look\n\n[image, 5")
    assert content_text("plain") == "plain"
    assert output_blocks(Folder(), "r", parts)[0].text == "look"


def test_an_empty_output_has_no_block() -> None:
    assert output_blocks(Folder(), "r", None) == []
    assert output_blocks(Folder(), "r", "") == []


def test_json_escapes_only_characters_that_cannot_be_shown() -> None:
    assert pretty_json({"ü": "\ud800\x00"}) == '{\n  "ü": "\\ud800\\u0000"\n}'


def test_json_with_many_values_or_levels_is_not_indented() -> None:
    """1.8 MB, with 150 lists around the numbers, had 300 MB with indents."""
    deep: Any = [1] * 1_000
    for _ in range(INDENTED_LEVELS):
        deep = [deep]
    assert pretty_json(deep[0]).count("\n") > 1_000
    for value in (deep, [1] * (INDENTED_VALUES + 1), ["a" * (INDENTED_CHARACTERS + 1)]):
        assert pretty_json(value) == json.dumps(value, separators=(",", ":"))


def test_json_without_indents_has_its_own_characters() -> None:
    value = {"ü": "\ud800🙂" * 40_000, "n": [1] * (INDENTED_VALUES + 1)}
    shown = pretty_json(value)
    assert shown.startswith('{"ü":"\\ud800🙂')
    assert json.loads(shown) == value


def test_a_very_long_list_of_words_is_not_a_command() -> None:
    assert languages({"command": ["echo", "a" * LONG_COMMAND]}) == {"command": "json"}
    assert languages({"command": ["echo", "a" * 1_000]}) == {"command": "bash"}
