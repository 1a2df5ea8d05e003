"""A long text on its own page: the list of search matches, and the parts of the text."""

import re
from itertools import pairwise

import pytest

from dashboard.rendering.whole_text import AROUND, MAX_COUNTED, MAX_LINES, PAGE_CHARACTERS, WholeText

LONG = "".join(f"line {number} of the build\n" for number in range(1, 5_001))


def test_every_line_with_the_text_is_listed_in_any_case() -> None:
    shown = WholeText("one Error\ntwo\n\nERROR and error\n", "error")
    assert [(line.number, line.before, line.match, line.after) for line in shown.listed] == [
        (1, "one ", "Error", ""), (4, "", "ERROR", " and error"),
    ]  # fmt: skip
    assert shown.count == 2
    assert not shown.has_more


def test_a_line_is_shown_with_three_lines_before_it() -> None:
    [line] = WholeText(LONG, "line 4321 ").listed
    assert LONG[line.start :].startswith("line 4318 ")
    page = WholeText(LONG, "line 4321 ")
    assert '<span data-n="4318"><code>line 4318 of the build\n</code></span>' in page.html
    assert "<mark>line 4321 </mark>of the build" in page.html


def test_the_list_has_pages() -> None:
    first = WholeText(LONG, "build")
    assert (first.count, len(first.listed), first.next_first) == (5_000, MAX_LINES, MAX_LINES)
    last = WholeText(LONG, "build", first=4_980)
    assert ([line.number for line in last.listed][-1], last.next_first) == (5_000, None)


def test_lines_beyond_the_limit_are_not_counted() -> None:
    shown = WholeText("x\n" * (MAX_COUNTED + 5), "x")
    assert (shown.count, shown.has_more) == (MAX_COUNTED, True)


def test_parts_follow_each_other_without_a_gap() -> None:
    starts, start = [0], WholeText(LONG).next_start
    while start is not None:
        starts.append(start)
        start = WholeText(LONG, start=start).next_start
    assert all(first < second <= first + PAGE_CHARACTERS for first, second in pairwise(starts))
    pages = [WholeText(LONG, start=start).html for start in starts]
    numbers = [int(number) for page in pages for number in re.findall(r'data-n=" *(\d+)"', page)]
    assert numbers == list(range(1, 5_001))
    assert WholeText(LONG, start=starts[1]).previous_start is not None
    assert WholeText(LONG).previous_start is None


def test_one_very_long_line_is_cut_around_the_match() -> None:
    text = "a" * 100_000 + "needle" + "b" * 100_000
    [line] = WholeText(text, "needle").listed
    assert (line.before, line.match, line.after) == ("a" * AROUND, "needle", "b" * AROUND)
    assert "<mark>needle</mark>" in WholeText(text, "needle").html.replace("<wbr>", "")


def test_colours_of_a_terminal_do_not_hide_a_match() -> None:
    [line] = WholeText("\x1b[31mfai\x1b[0mled", "failed").listed
    assert line.match == "failed"


@pytest.mark.parametrize("wanted", ["<script>", ""])
def test_text_is_escaped(wanted: str) -> None:
    assert "<script>" not in WholeText("<script>alert(1)</script>\x00", wanted).html


def test_an_empty_text_and_a_position_beyond_the_end_are_shown() -> None:
    assert WholeText("", "x").count == 0
    shown = WholeText("abc", start=10**8)
    assert (shown.page_start, shown.next_start, shown.previous_start) == (3, None, 0)
