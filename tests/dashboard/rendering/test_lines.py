"""Code with numbers, diffs, matches and lists of tasks, shown a part at a time."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.lines import diff_lines, matches, numbered_lines, side_by_side, task_list
from dashboard.rendering.text import visible

DIFF = "@@ -40,4 +40,4 @@ def f():\n before\n-old\n+new\n+more\n after\n-last\n"
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=100)


def whole(text: str) -> tuple[int, int]:
    return 0, len(text)


def rows(html: str) -> list[tuple[str, str, str]]:
    """Tag, numbers and text of each line."""
    cells = re.findall(r'<(\w+) data-n="([^"]*)"><code>(.*?)\n</code></\1>', html, re.DOTALL)
    return [(tag, numbers, unescape(re.sub(r"<[^>]*>", "", text))) for tag, numbers, text in cells]


def test_lines_of_code_have_their_numbers() -> None:
    assert rows(numbered_lines("a\nb\nc\n", (0, 6), 9, "text")) == [
        ("span", " 9", "a"),
        ("span", "10", "b"),
        ("span", "11", "c"),
    ]


def test_a_later_part_continues_the_numbers() -> None:
    assert rows(numbered_lines("a\nb\nc\n", (2, 6), 9, "text"))[0] == ("span", "10", "b")


def test_a_diff_has_the_numbers_of_both_sides() -> None:
    assert [row[:2] for row in rows(diff_lines(DIFF, whole(DIFF), "text"))] == [
        ("b", "       "),
        ("span", "40 40  "),
        ("del", "41    -"),
        ("ins", "   41 +"),
        ("ins", "   42 +"),
        ("span", "42 43  "),
        ("del", "43    -"),
    ]


@pytest.mark.parametrize("cut", [DIFF.index("-old"), DIFF.index("+more"), DIFF.index(" after")])
def test_a_later_part_of_a_diff_continues_its_numbers(cut: int) -> None:
    all_rows = rows(diff_lines(DIFF, whole(DIFF), "text"))
    later = rows(diff_lines(DIFF, (cut, len(DIFF)), "text"))
    assert later == all_rows[-len(later) :]


def test_a_diff_without_a_place_has_no_numbers() -> None:
    assert rows(diff_lines("-a\n+b", (0, 5), "text")) == [("del", "-", "a"), ("ins", "+", "b")]
    assert rows(diff_lines("@@ class A\n-a", (0, 13), "text"))[1] == ("del", "-", "a")


def test_changed_lines_are_side_by_side() -> None:
    html = side_by_side(DIFF, whole(DIFF), "text")
    table = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in html.split("</tr>")[:-1]]
    assert [[re.sub("<[^>]*>", "", cell) for cell in row] for row in table] == [
        ["@@ -40,4 +40,4 @@ def f():"],
        ["before", "before"],
        ["old", "new"],
        ["", "more"],
        ["after", "after"],
        ["last", ""],
    ]


def test_an_unchanged_line_with_a_backslash_after_a_change_is_on_both_sides() -> None:
    """Only lines such as ``\\ No newline at end of file`` belong to one side."""
    diff = "@@ -1,2 +1,2 @@\n-a\n+b\n \\section"
    rows = side_by_side(diff, whole(diff), "text").split("<tr>")[1:]
    assert len(rows) == 3
    assert rows[2].count("\\section") == 2


@given(anything)
def test_lines_change_no_character_of_any_text(text: str) -> None:
    html = numbered_lines(text, whole(text), 1, "python")
    assert unescape(re.sub("<[^>]*>", "", html)).removesuffix("\n") == visible(text).removesuffix("\n")


@given(
    st.lists(anything | st.sampled_from(["@@ -1 +1 @@", "+x", "-y", " z", ""])).map("\n".join),
    st.integers(0, 99),
)
def test_any_text_can_be_shown_as_a_diff(text: str, start: int) -> None:
    span = min(start, len(text)), len(text)
    for html in (diff_lines(text, span, "python"), side_by_side(text, span, "python"), matches(text)):
        html.encode()
        assert "<script" not in html


def test_matches_are_below_their_file() -> None:
    shown = rows(matches("src/a.py:3:def f():\nsrc/a.py-4-    x\nsrc/b.py:1:y = f(1:2)\nno file"))
    assert [row for row in shown if row[0] != "b"] == [
        ("span", "    3", "def f():"),
        ("span", "    4", "    x"),
        ("span", "    1", "y = f(1:2)"),
        ("span", "", "no file"),
    ]
    assert re.findall('<b data-n=""><code>(.*?)\n</code></b>', matches("a.py:3:x\na.py:4:y\nb.py:1:z")) == [
        "a.py",
        "b.py",
    ]


def test_a_number_within_a_text_is_not_a_line_number() -> None:
    text = '{"id": "bb2f-9808-610e"}'
    assert rows(matches(text)) == [("span", "", text)]


def test_matches_in_one_file_have_only_numbers() -> None:
    assert rows(matches("12:x = 1\n13-y\nC:\\a.py:7:z")) == [
        ("span", "   12", "x = 1"),
        ("span", "   13", "y"),
        ("b", "", "C:\\a.py"),
        ("span", "    7", "z"),
    ]


def test_the_state_of_a_task_is_named() -> None:
    html = task_list("[x] Look\n[>] Fix <b>\n[ ] Test\nfree")
    assert re.findall(r'<li class="([^"]*)">', html) == [
        "task-done",
        "task-in-progress",
        "task-to-do",
        "task-text",
    ]
    assert "Fix &lt;b&gt;" in html
    assert ">in progress: <" in html
