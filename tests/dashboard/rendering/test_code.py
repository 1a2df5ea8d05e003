"""Source code with colours."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering import code as module
from dashboard.rendering.code import highlighted, language_of
from dashboard.rendering.text import visible

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=100)


@pytest.mark.parametrize("language", ["bash", "diff", "json", "python", "text"])
@given(anything)
def test_colours_change_no_character_of_any_text(language: str, code: str) -> None:
    shown = highlighted(code, language)
    assert all(
        re.fullmatch(r'</span>|<span class="\w+">|<span>', tag) for tag in re.findall("<[^>]*>", shown)
    )
    plain = unescape(re.sub("<[^>]*>", "", shown))
    assert plain.removesuffix("\n") == visible(code).removesuffix("\n")


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "python"),
        ("C:\\code\\main.rs", "rust"),
        ("Makefile", "make"),
        ("notes", "text"),
        ("", "text"),
        ("a" * 10_000 + ".js", "javascript"),
        ("\ud800.py", "python"),
    ],
)
def test_a_file_name_tells_the_language(path: str, language: str) -> None:
    assert language_of(path) == language


def test_where_colours_take_too_long_the_rest_is_shown_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", -1)
    assert highlighted("import <os>\n", "python") == "import &lt;os&gt;\n"
