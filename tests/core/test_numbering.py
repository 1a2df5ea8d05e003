"""Line numbers that a tool writes before lines."""

import pytest

from historyapp.core.numbering import NumberedCode, line_range, numbered_code
from historyapp.core.text import MAX_READ


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("     3→a\n     4→\n     5→c", NumberedCode("", 3, "a\n\nc", "")),
        ("     1\ta\n     2\tb", NumberedCode("", 1, "a\nb", "")),
        (
            "[File: a (2 lines)]\n1:a\n2:b\n(folder)",
            NumberedCode("[File: a (2 lines)]", 1, "a\nb", "(folder)"),
        ),
        ("7→only", NumberedCode("", 7, "only", "")),
        ("1:a\n5:b", None),
        ("plain\ntext", None),
        ("", None),
    ],
)
def test_consecutive_line_numbers_are_removed(text: str, expected: NumberedCode | None) -> None:
    assert numbered_code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("     3→a\n     4→\n     5→c", (3, 5)),
        ("1\ta\n2\tb\n\n<system-reminder>\nNote.\n</system-reminder>", (1, 2)),
        ("[File: a]\n(6 more lines above)\n7:a\n8:b\n(2 more lines below)\n(Open file: a)", (7, 8)),
        ("     1→only\n\n<system-reminder>", (1, 1)),
        ("1: first\nwords", None),
        ("1:a\n5:b", None),
        ("1→a\n2→b\n900→c", None),
        ("5→a\n6→b\n2→c", None),
        ("", None),
    ],
)
def test_the_range_is_from_the_first_number_to_the_last(text: str, expected: tuple[int, int] | None) -> None:
    assert line_range(text) == expected


def test_the_lines_of_a_long_text_are_not_read() -> None:
    assert numbered_code("1\ta\n2\tb\n" + "c" * MAX_READ) is None
