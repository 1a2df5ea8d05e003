"""Texts that a browser would lay out in quadratic time."""

import re
from html import unescape
from itertools import chain
from unicodedata import category

import pytest
from django.utils.html import escape
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.blocks import PAGE_CHARACTERS, Block
from dashboard.rendering.line_breaks import (
    MAX_CHANGES,
    MAX_FOREIGN,
    MAX_JOINED,
    MAX_LINES,
    MAX_STRETCH,
    MAX_TURNING,
    MAX_WORD,
    SHAPED,
    turns,
    with_breaks,
)
from dashboard.rendering.text import terminal
from dashboard.rendering.whole_text import WholeText

MARKS = "a" + 20 * MAX_WORD * "\u0301"
THAI = 7 * MAX_WORD * "\u0e01\u0e33\u0e19"
SKIN_TONE = "\U0001f3fb"
LONGEST = MAX_WORD + MAX_JOINED
shaped = st.text(st.sampled_from("a<&\u0301\u0e01\u200d\U0001f3fb \n"), max_size=12).map(
    lambda text: text * 60
)


def written(shown: str) -> str:
    """The text of HTML, as readers copy it."""
    return unescape(re.sub(r"<[^<>]*>", "", shown))


def longest_shaped(shown: str) -> int:
    """Characters of the longest text that a browser shapes at once."""
    return max(map(len, re.split(r"\0|[ \t\n]", written(shown.replace("<wbr>", "\0")))))


@pytest.mark.parametrize("language", ["terminal", "python", "markdown", "matches"])
@pytest.mark.parametrize("text", [MARKS, THAI], ids=["marks", "words without spaces"])
def test_no_block_has_a_word_that_takes_long_to_lay_out(text: str, language: str) -> None:
    shown = Block("k", text, language, end=len(text)).html
    assert longest_shaped(shown) <= LONGEST
    assert written(shown).strip() == text


def test_no_page_of_a_whole_text_has_such_a_word() -> None:
    assert longest_shaped(WholeText(MARKS, "x").html) <= LONGEST


@given(shaped)
def test_breaks_leave_the_text_as_it_is(text: str) -> None:
    drawn = terminal(f"\x1b[31m{text}\x1b[0m{text}")
    shown = with_breaks(drawn)
    assert shown.replace("<wbr>", "") == drawn
    assert longest_shaped(shown) <= LONGEST


@pytest.mark.parametrize("text", [
    "x" * 100 + " ", "é" * 100 + "\n", "漢字" * 50 + "\n", "слово " * 500, "हिन्दी में " * 200,
    "שלום עולם " * 200, "&<" * 50 + " ", "👍🏽 " * 500, "👩🏽‍❤️‍💋‍👨🏻" * 10 + " ", "🏴󠁧󠁢󠁥󠁮󠁧󠁿 " * 200,
])  # fmt: skip
def test_ordinary_texts_have_no_breaks(text: str) -> None:
    assert with_breaks(escape(text * 3)) == escape(text * 3)


@pytest.mark.parametrize(
    "word",
    ["AV", "\u0525\u0526", "\u30fb", "\u0413\u0443", "\uff09aaaa", "\U0001d49c", "漢字", "&<", "\u0628"],
)
@pytest.mark.parametrize("end", ["", "e\u0301"], ids=["plain", "with a mark at its end"])
def test_every_long_word_is_divided(word: str, end: str) -> None:
    """54,000 letters "AVAV..." stopped a page for 132 s. One mark at the end of a word kept it whole."""
    text = word * 3 * MAX_WORD + end
    shown = with_breaks(escape(text))
    pieces = [unescape(piece) for piece in shown.split("<wbr>")]
    assert "".join(pieces) == text
    assert {len(piece) for piece in pieces[:-1]} == {MAX_WORD}
    assert len(pieces[-1]) <= MAX_WORD + 1
    assert with_breaks(shown) == shown


def test_a_word_of_several_elements_is_divided_outside_of_tags() -> None:
    """Chromium shapes ``AV<del>AV</del>`` as one word."""
    tags = f'<p title="{"x" * 300}"><b></b>'
    html = mark_safe(f"{tags} {tags}" + f"AV<del>{'AV' * 20}</del>" * 9 + "</p>" * 40)
    shown = with_breaks(html)
    assert shown.replace("<wbr>", "") == html
    assert [len(written(piece)) for piece in shown.split("<wbr>")] == [101, 100, 100, 78]


@given(st.lists(st.sampled_from(["<b a='x y'>", "</b>", " ", "A" * 60, "&lt;", "&", "\u0301", "\u200d"])))
def test_breaks_change_neither_tags_nor_text(pieces: list[str]) -> None:
    html = mark_safe("".join(pieces))
    assert with_breaks(html).replace("<wbr>", "") == html


def test_a_break_separates_no_mark_from_its_letter() -> None:
    shown = with_breaks(escape("\u0e01\u0e34" * MAX_WORD + "\u0e34"))
    assert "<wbr>" in shown
    assert "<wbr>\u0e34" not in shown


@pytest.mark.parametrize(
    "joined",
    [SKIN_TONE, "\U000e0110" + SKIN_TONE, "\u034e" + SKIN_TONE, "\u26a9\u200d", "&\u200d", "\U000e0061"],
)
def test_no_letter_or_picture_has_many_characters_that_are_joined_to_it(joined: str) -> None:
    """4,000 skin tones took a browser 8 s, also as words of 250 characters."""
    text = "a" + joined * 60
    shown = with_breaks(escape(f"{text} {text}"))
    pieces = [written(piece) for piece in re.split("<wbr>| ", shown)]
    assert max(map(len, pieces)) <= MAX_JOINED + 2


def test_emoji_that_are_joined_stay_whole() -> None:
    family = "👩🏽‍❤️‍💋‍👨🏻"
    assert set(with_breaks(escape(family * 1_000)).replace("<wbr>", " ").replace(family, "")) == {" "}


def test_every_combining_mark_needs_shaping() -> None:
    planes = chain(range(0x20000), range(0xE0000, 0xE1000))
    marks = [chr(code) for code in planes if category(chr(code))[0] == "M" or code in range(0xE0020, 0xE0080)]
    assert [mark for mark in marks if not SHAPED.match(mark)] == []


def test_a_text_from_right_to_left_or_of_emoji_is_shown_in_shorter_parts() -> None:
    text = "a\u05d0" * PAGE_CHARACTERS
    assert turns(text)
    assert Block("k", text).page(0).end == MAX_TURNING
    assert Block("k", SKIN_TONE * PAGE_CHARACTERS).page(0).end == MAX_TURNING
    assert Block("k", "ab" * PAGE_CHARACTERS).page(0).end == PAGE_CHARACTERS


def test_a_page_shows_at_most_so_many_lines() -> None:
    text = "\n" * 4 * MAX_LINES
    assert Block("k", text, "python", first_line=1).page(0).end == MAX_LINES
    shown = WholeText(text, start=3 * MAX_LINES)
    assert (shown.next_start, shown.previous_start) == (None, 2 * MAX_LINES)
    assert WholeText(text).next_start == MAX_LINES


@pytest.mark.parametrize("text", ["\u05d0a" * 30_000, "\u05d0a\n" * 20_000], ids=["line", "lines"])
def test_pages_of_a_text_from_right_to_left_are_shorter_and_follow_each_other(text: str) -> None:
    second = WholeText(text, start=WholeText(text).next_start)
    assert second.previous_start == 0
    assert 0 < second.page_end - second.page_start <= MAX_TURNING
    assert WholeText(text, start=second.next_start).previous_start == second.page_start


def test_a_match_in_a_long_line_from_right_to_left_is_on_its_page() -> None:
    shown = WholeText("\u05d0a" * 10_000 + "needle" + "\u05d0a" * 10_000, "needle")
    assert "<mark>needle</mark>" in shown.html.replace("<wbr>", "")


@pytest.mark.parametrize("word", ["\u30a2 ", "\U0001f469 ", "a\u30a2\n", "\u30a2&amp;\t", "\u0525\u0526 "])
@pytest.mark.parametrize("words", [3_000, 20_000])
def test_a_text_that_may_need_many_fonts_is_shaped_in_stretches(word: str, words: int) -> None:
    """60,000 characters of emoji and spaces stopped a page for 39 seconds."""
    text = word * words
    html = mark_safe(f'<p title="{text}">{text}</p><p>{text}')
    shown = with_breaks(html)
    assert shown.replace("<wbr>", "") == html
    assert f'<p title="{text}">' in shown
    stretches = re.split("<[^<>]*>", shown)
    assert max(map(len, stretches)) <= MAX_STRETCH + len(word)
    assert all(stretch[-1:] in (*"\t\n ", "") for stretch in stretches)
    assert with_breaks(shown) == shown


def test_texts_with_fewer_foreign_characters_have_no_breaks() -> None:
    text = "\u00e4\u00f6\u00fc abcd " * (MAX_FOREIGN // 3)
    assert MAX_FOREIGN - 3 <= sum(not character.isascii() for character in text) <= MAX_FOREIGN
    few = text[: MAX_CHANGES * 4]
    assert with_breaks(mark_safe(few)) == few
    assert "<wbr>" in with_breaks(mark_safe(text))
