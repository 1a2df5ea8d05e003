"""Names and texts are found in shown texts exactly as a search of the whole text would find them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.identifiers import contains_name, identifiers
from historyapp.core.policies.shown import ShownTexts
from tests.examples import examples

PIECES = (
    *("src/app.py", "app.py", "src", "py", "a_b", "a_b.c_d", "camelCase", "x", "12345", "1.234", "./run.sh"),
    *("https://a.b/c", "https://a.b/c/d?e=f_g&h", "http://", "://", "a/b/", "~/.ssh/id", "@me.dev", "+-"),
    *("修改", "「", "ー", "é", "Größe_x", "привет.py", "ไทย", "한글", "—", "→", "✓", chr(0xDC80)),
    *("\x00", "\x1b", "\x08", "\x7f"),
    *(" ", "  ", "\n", "\t", "\r", "\x1c", *",:()=\"'`\\[{|#*"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def is_found(name: str, text: str) -> bool:
    words = re.compile(r"\w+").findall
    return set(words(text)).issuperset(words(name)) and contains_name(name, text)


@settings(max_examples=examples(4000, minimum=150, part=32))
@given(texts=st.lists(TEXTS, max_size=4), other=TEXTS)
def test_a_name_is_found_exactly_where_a_search_of_the_whole_text_finds_it(
    texts: list[str], other: str
) -> None:
    text = "\n".join(texts)
    shown = ShownTexts(texts)
    for name in (*identifiers(text), *identifiers(other)):
        assert (name in shown) == is_found(name, text), name


@settings(max_examples=examples(4000, minimum=150, part=32))
@given(text=TEXTS, other=TEXTS)
def test_the_identifiers_of_the_texts_are_among_its_names_and_no_others(text: str, other: str) -> None:
    names = ShownTexts([text]).names()
    assert names.issuperset(identifiers(text))
    assert names.intersection(identifiers(other)).issubset(identifiers(text))


@settings(max_examples=examples(4000, minimum=150, part=32))
@given(before=TEXTS, text=TEXTS, after=TEXTS)
def test_a_text_is_found_wherever_it_stands(before: str, text: str, after: str) -> None:
    shown = ShownTexts([before + text + after])
    assert shown.contains_text(text, identifiers(text))
    line = text.partition("\n")[0]
    assert ShownTexts([before]).contains_text(line, identifiers(line)) == (line in before)


def test_added_texts_are_read() -> None:
    shown = ShownTexts(["one/two.py"])
    assert "three/four.py" not in shown
    shown.add("in three/four.py", "and a_b")
    assert all(name in shown for name in ("three/four.py", "four.py", "a_b"))
    assert shown.names() >= {"one/two.py", "three/four.py", "a_b"}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("app.py", "see src/app.py", True),
        ("app.py", "see src/myapp.py", False),
        ("https://a.b/c", "(-https://a.b/c)", True),
        ("x\x08y.py", "a — x\x08y.py", True),
    ],
)
def test_names_within_longer_runs(name: str, text: str, found: bool) -> None:
    assert (name in ShownTexts([text])) is found
