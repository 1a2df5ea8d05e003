"""Which texts count as Markdown."""

import pytest

from dashboard.rendering.prose import is_markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\n- one\n- two", True),
        ("**bold** and `code`", True),
        ("a plain sentence", False),
        ("# a comment of a script\nls", False),
        ("- only a list", False),
        ("total 8\ndrwxr-xr-x 2 root", False),
        ("\x1b[1m# Title\n\n- one", False),
    ],
)
def test_a_text_with_two_signs_of_markdown_is_markdown(text: str, expected: bool) -> None:
    assert is_markdown(text) is expected
