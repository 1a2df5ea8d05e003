"""Names and texts are found in shown texts exactly as a search of the whole text would find them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core import identifiers as identifiers_module
from historyapp.core.budget import RequestMeter
from historyapp.core.entries import ModelInput
from historyapp.core.identifiers import contains_name, identifiers, name_in
from historyapp.core.policies import shown as module
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.policies.shown import ShownTexts
from historyapp.core.settings import SessionSettings
from historyapp.core.text import PIECE_LENGTH
from tests.core.entries import calls, result, session
from tests.core.policies.past import MemoryPast
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


@pytest.mark.parametrize("limit", ["MAX_READ", "MAX_RUNS"])
def test_only_the_first_texts_are_read(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, PIECE_LENGTH // 8)
    long = " ".join(f"a_{number}" for number in range(PIECE_LENGTH // 4))
    shown = ShownTexts(["one/two.py", long])
    assert "one/two.py" in shown
    assert "a_7" in shown
    assert f"a_{PIECE_LENGTH // 4 - 1}" not in shown
    shown.add("three/four.py")
    assert "three/four.py" not in shown
    assert not shown.contains_text("three/four.py", ["three/four.py"])
    assert shown.contains_text("one/two.py", ["one/two.py"])
    assert shown.names().issubset([*identifiers(f"one/two.py {long}"), "a", *map(str, range(PIECE_LENGTH))])


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


def test_the_words_of_a_long_text_are_those_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(f"{'  '.join(PIECES)} word_{number} é{number}.py" for number in range(200))
    whole = {name for name in ShownTexts([text]).names() if name_in(name)}
    monkeypatch.setattr(identifiers_module, "PIECE_LENGTH", 3000)
    monkeypatch.setattr(module, "PIECE_LENGTH", 3000)
    shown = ShownTexts([text])
    assert {name for name in shown.names() if name_in(name)} == whole
    assert all(shown.contains_text(line, identifiers(line)) for line in text.split("\n"))


def test_no_text_is_read_for_a_context_that_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [body for n in range(60) for body in (calls(str(n)), result(str(n), f"src/file_{n}.py\n" * 20))]
    past = MemoryPast(session(ModelInput(content="go"), *steps))
    monkeypatch.delattr(ShownTexts, "_read")
    assert BUDGETED.choose(past, SessionSettings(max_tokens=100_000), RequestMeter()).manifest.left_out == []
    with pytest.raises(AttributeError, match="_read"):
        BUDGETED.choose(past, SessionSettings(max_tokens=2048), RequestMeter())
