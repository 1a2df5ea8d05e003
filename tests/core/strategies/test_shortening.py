"""A shortened text keeps its most informative lines and gives the number of the others."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.strategies import shortening
from historyapp.core.strategies.shortening import clip, clip_longest, shorten
from historyapp.core.text import clean
from tests.core.entries import TEXT


def test_a_text_that_fits_stays_unchanged() -> None:
    assert shorten(" a\nb\n", 3) == "a\nb"


def test_the_first_line_names_and_failures_are_kept_in_their_order() -> None:
    plain = "nothing to see in this line at all"
    text = "\n".join(["The plan", plain, plain, "src/a_b.py changed", plain, "KeyError: 1", plain])
    assert shorten(text, 75) == "The plan\nsrc/a_b.py changed\nKeyError: 1\n[4 less useful lines left out]"


def test_a_line_without_room_is_clipped_and_marked() -> None:
    assert shorten("x" * 150, 20) == "x" * 10 + " […] " + "x" * 5


@pytest.mark.parametrize("room", [1, 3, 7, 8, 30])
def test_a_clipped_text_never_exceeds_its_room(room: int) -> None:
    assert len(clip("word " * 50, room)) <= room


@given(st.lists(TEXT | st.just("a_b.py\n"), max_size=30).map("".join), st.integers(0, 200))
def test_a_shortened_text_never_exceeds_its_room(text: str, room: int) -> None:
    shortened = shorten(text, room)
    assert len(shortened) <= room
    assert shortened == clean(shortened)
    assert bool(shortened) is bool(clean(text).strip() and room)


def test_a_text_of_five_megabytes_is_read_to_its_end() -> None:
    assert "the_last_name" in shorten("plain words only\n" * 300_000 + "the_last_name", 500)


def test_unranked_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortening, "MAX_LINES", 10)
    assert shorten("plain words\n" * 100, 60).endswith("[98 less useful lines left out]")


def test_a_very_long_text_is_read_at_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortening, "MAX_READ", 1000)
    plain = "plain words\n" * 500
    shortened = shorten(f"a_first_name\n{plain}a_middle_name\n{plain}the_last_name", 200)
    assert "a_first_name" in shortened
    assert "the_last_name" in shortened
    assert "a_middle_name" not in shortened
    *kept, note = shortened.split("\n")
    match = re.fullmatch(r"\[([\d,]+) less useful lines left out\]", note)
    assert match
    assert 1003 <= int(match[1].replace(",", "")) + len(kept) <= 1006, "a cut line counts twice"


def test_the_longest_texts_are_clipped_and_the_others_stay_whole() -> None:
    texts = ["short", "a" * 1000 + "b" * 1000, "c" * 3000]
    first, second, third = clip_longest(texts, 805)
    assert first == "short"
    assert (second[0], second[-1], len(second), len(third)) == ("a", "b", 400, 400)
    assert clip_longest(texts, 5005) == texts
