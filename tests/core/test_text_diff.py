"""The line diff of two texts of any length."""

from historyapp.core.text_diff import AROUND, MAX_COMPARED, MAX_LEAD, MAX_LINE, text_diff

LINES = [f"line {number}" for number in range(40)]


def diff_of(before: list[str], after: list[str]) -> list[str]:
    return text_diff("\n".join(before), "\n".join(after)).split("\n")


def test_changes_are_shown_with_the_lines_around_them() -> None:
    after = [*LINES[:10], "new", *LINES[10:30], *LINES[31:]]
    parts = diff_of(LINES, after)
    around = [f" {line}" for line in LINES]
    assert parts[: AROUND + 2] == ["@@ -8,6 +8,7 @@", *around[7:10], "+new"]
    assert parts[8:] == ["@@ -28,7 +29,6 @@", *around[27:30], "-line 30", *around[31:34]]


def test_short_texts_are_shown_whole_and_without_line_numbers() -> None:
    assert diff_of(["a", "b"], ["a", "c"]) == [" a", "-b", "+c"]
    assert diff_of([], ["a"]) == ["+a"]


def test_equal_texts_and_line_breaks_at_the_end_have_no_diff() -> None:
    assert text_diff("a\nb", "a\nb") == text_diff("a\nb", "a\nb\n") == ""


def test_the_difference_of_long_lines_is_near_their_shown_beginning() -> None:
    same = 1_000_000 * "ab"
    removed, added = text_diff(f"{same}1{same}", f"{same}2{same}").split("\n")
    assert removed[:2] == "-…"
    assert removed[2 + MAX_LEAD] == "1"
    assert added[2 + MAX_LEAD] == "2"
    assert len(removed) < MAX_LINE + 100
    assert removed.endswith(" more characters")


def test_a_limited_part_of_long_texts_is_compared() -> None:
    before, after = ("\n".join(f"{mark}{n}" for n in range(200_000)) for mark in "ab")
    assert len(text_diff(before, after)) < 3 * MAX_COMPARED
    empty_lines = 5_000_000 * "\n"
    assert len(text_diff(empty_lines, f"x{empty_lines}")) < 3 * MAX_COMPARED


def test_blanks_at_the_end_of_a_line_are_named_if_nothing_else_differs() -> None:
    assert text_diff("a\nb", "a\nb  ").split("\n") == [
        " a", "-b", "\\ ends without blanks", "+b  ", "\\ ends with 2 spaces",
    ]  # fmt: skip
    assert text_diff("b\r", "b \t").split("\n") == [
        "-b\r", "\\ ends with 1 carriage return", "+b \t", "\\ ends with 1 space, 1 tab",
    ]  # fmt: skip
    assert diff_of(["a", "b  "], ["a", "c  "]) == [" a", "-b  ", "+c  "]
    assert diff_of(["a ", "b", "c"], ["c", "b", "a "]) == ["-a ", "-b", " c", "+b", "+a "]
