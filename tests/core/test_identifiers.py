"""Identifiers are found completely, once, in order, and no other words are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core import identifiers as module
from historyapp.core.identifiers import (
    MAX_IDENTIFIER,
    contains_name,
    identifier_places,
    identifiers,
    new_identifiers,
    piece_places,
    texts_in,
    word_places,
)
from historyapp.core.text import PIECE_LENGTH
from tests.examples import examples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/app/parser.py:41 for it", ["src/app/parser.py"]),
        ("ran ./tests/run.sh.", ["tests/run.sh"]),
        ("open /etc/hosts now", ["/etc/hosts"]),
        ("call os.path.join(a, b)", ["os.path.join"]),
        ("in file setup.cfg, line 1207", ["setup.cfg", "1207"]),
        ("snake_case and camelCase and HTTPServer", ["snake_case", "camelCase"]),
        ("order 4821 of user mia_li_3668 on HAT136", ["4821", "mia_li_3668", "HAT136"]),
        ("commit 1d7b2ce and e3c9fa0b", ["1d7b2ce", "e3c9fa0b"]),
        ("get https://example.org/a?b=c&d=1, please", ["https://example.org/a?b=c&d=1"]),
        ("naïve_name und größe.txt", ["naïve_name", "größe.txt"]),
        ('{"user_id": "sara_doe_496"}', ["user_id", "sara_doe_496"]),
        ("修改src/app.py文件的第312行", ["src/app.py", "312"]),
        ("src/lib.rsを開いてload_allを呼ぶ", ["src/lib.rs", "load_all"]),
        ("app.py를 수정, 文档/说明.md 在", ["app.py", "文档/说明.md"]),
        ("عدّل src/app.py الآن", ["src/app.py"]),
    ],
)
def test_each_kind_is_found_whole(text: str, expected: list[str]) -> None:
    assert identifiers(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "plain words only, well-known ones.", "12 and 99", "...", "--verbose -x", "a" * 40, "\x00\ud800"],
)
def test_other_words_are_not_identifiers(text: str) -> None:
    assert identifiers(text) == []


def test_each_identifier_is_returned_once_in_order_of_first_appearance() -> None:
    assert identifiers("b_2 a_1 b_2 (a_1)") == ["b_2", "a_1"]


def test_long_runs_of_characters_are_not_names() -> None:
    assert identifiers("x_" * MAX_IDENTIFIER) == []
    assert identifiers("x_" * (MAX_IDENTIFIER // 2 - 1) + "y") != []


@pytest.mark.parametrize("length", [1, 100, MAX_IDENTIFIER, 3 * MAX_IDENTIFIER, PIECE_LENGTH])
def test_the_rest_of_a_long_run_is_not_a_name(length: int) -> None:
    for before in ("", "é", "x " * 50):
        text = f"{before}{'_' * (PIECE_LENGTH + length - 6)}app.py in a_1"
        assert identifiers(text) == ["a_1"]
        assert [name for _, name in identifier_places(text)] == ["a_1"]


SEPARATED = st.lists(
    st.sampled_from(["src/a.py", "https://a.b/c_d", "größe.txt", "修改a.py文件", "a_b", "x" * 190, "+", ":"]),
    max_size=3,
).map("".join)


@given(st.lists(SEPARATED, max_size=60), st.sampled_from([" ", ",", "\n", "é,", "，"]))
def test_names_of_a_long_text_are_those_of_a_text_in_one_piece(words: list[str], separator: str) -> None:
    text = separator.join(words)
    whole, places = identifiers(text), list(identifier_places(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE_LENGTH", 3000)
        assert identifiers(text) == whole
        assert list(identifier_places(text)) == places
        assert all(end - start <= 3000 for start, end in piece_places(text))


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_all_names_of_a_text_occur_in_it(text: str) -> None:
    for name in identifiers(text):
        assert name in text
        assert 3 <= len(name) <= MAX_IDENTIFIER


@given(st.lists(st.sampled_from(["a_b c.d", "c.d", "x/y a_b", "", "nothing", "größe.txt x/y"]), max_size=6))
def test_each_line_has_only_its_new_names(lines: list[str]) -> None:
    new = list(new_identifiers(lines))
    assert len(new) == len(lines)
    assert [name for names in new for name in names] == identifiers("\n".join(lines))


@given(st.text(alphabet="ab_/.修größ1 \n:", max_size=60))
def test_lines_are_split_as_the_whole_text_is(text: str) -> None:
    """Lines in ASCII are split in a faster way."""
    names = (name for _, name in identifier_places(text))
    assert identifiers(text) == list(dict.fromkeys(names))


def test_texts_of_a_value_are_returned_in_order_without_field_names() -> None:
    value = {"path": "a", "deep": [{"b": "b", "n": 3}, ["c", None, True]], "last": 1.5}
    assert list(texts_in(value)) == ["a", "b", "3", "c", "1.5"]
    deep: object = "end"
    for _ in range(5_000):
        deep = [deep]
    assert list(texts_in(deep)) == ["end"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("load_all", "call load_all(x)", True),
        ("load_all", "reload_all load_all_of", False),
        ("load_all", "load_all2 and then load_all", True),
        ("a.py", "src/a.py", True),
        ("a.py", "", False),
        ("/tmp/x", "in /tmp/x", True),
        ("404", "4040 1404", False),
        ("app.py", "修改app.py文件", True),
        ("文件", "修改文件", False),
        ("größe", "größen", False),
    ],
)
def test_a_text_contains_a_name_only_as_a_whole_word(name: str, text: str, expected: bool) -> None:
    assert contains_name(name, text) is expected


@settings(max_examples=examples(1000))
@given(
    st.text(alphabet="ab_/1é修", min_size=1, max_size=3),
    st.text(alphabet="ab_/1é修 ", max_size=60),
)
def test_a_pattern_finds_the_places_of_whole_words_behind_many_others(name: str, text: str) -> None:
    found = list(word_places(name, text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_PLACES", 1)
        assert list(word_places(name, text)) == found


def test_few_places_within_longer_words_are_visited_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[int] = []
    monkeypatch.setattr(module, "is_whole_word", lambda text, start, end: visited.append(start))
    assert not contains_name("a_a", "a_" * 100_000)
    assert len(visited) == module._FEW_PLACES
