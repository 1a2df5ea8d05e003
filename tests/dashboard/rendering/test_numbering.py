"""Line numbers that a tool wrote before its lines."""

import pytest

from dashboard.rendering.numbering import NumberedCode, numbered_code


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
def test_numbers_that_follow_each_other_are_taken_off(text: str, expected: NumberedCode | None) -> None:
    assert numbered_code(text) == expected
