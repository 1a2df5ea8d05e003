"""Source code with colours."""

import re
from html import unescape
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers.shell import BashLexer

from dashboard.rendering import code as module
from dashboard.rendering.code import LANGUAGES, SECONDS, highlighted, language_of
from dashboard.rendering.text import visible
from tests.examples import thorough

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
        ("a.hs", "text"),
        ("a.php", "text"),
        ("Dockerfile", "text"),
        ("", "text"),
        ("a" * 10_000 + ".js", "javascript"),
        ("\ud800.py", "python"),
    ],
)
def test_a_file_name_determines_the_language(path: str, language: str) -> None:
    assert language_of(path) == language


def test_text_whose_colouring_takes_too_long_is_shown_without_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SECONDS", -1)
    assert highlighted("import <os>\n", "python") == "import &lt;os&gt;\n"


def test_the_rest_of_a_long_line_has_no_colours() -> None:
    html = highlighted("a.b " * 2_000 + "\nimport os\n", "python")
    first, second = html.splitlines()
    assert first.rindex("<span") < first.index("a.b a.b a.b")
    assert "<span" in second
    assert unescape(re.sub("<[^>]*>", "", html)) == "a.b " * 2_000 + "\nimport os\n"


HOSTILE = (
    "echo $'" + "\\" * 20_000,
    "all:\n\techo $'" + "\\" * 20_000,
    "```bash\necho $'" + "\\" * 20_000 + "\n```\n",
    "<<" + "a" * 20_000,
    '"%' + "0" * 20_000,
    "import a" + "\r" * 20_000,
    "match" + " " * 20_000,
    "super " + " " * 20_000,
    "<a " * 7_000,
    "${" * 10_000,
    "/*" * 10_000,
    "[" * 20_000,
    "\\" * 20_000,
    "a" * 20_000,
)


QUICK = {"bash", "make", "markdown", "python"}
"""The others are for ``make test-all``."""


@pytest.mark.parametrize("language", [*sorted(QUICK), *map(thorough, sorted(LANGUAGES - QUICK))])
def test_colouring_has_a_time_limit_for_any_text(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 characters are a whole block; pygments alone never returns for the first ones."""
    monkeypatch.setattr(module, "SECONDS", SECONDS / 40)
    for text in HOSTILE:
        started = thread_time()
        highlighted(text, language)
        assert thread_time() < started + 2 * SECONDS, text[:20]


def test_the_worst_patterns_of_the_lexer_for_shells_are_replaced() -> None:
    """If this fails, pygments has changed them: check whether they take linear time now."""
    rules = [rule[0] for rules in BashLexer.tokens.values() for rule in rules if isinstance(rule, tuple)]
    assert set(module._LINEAR.values()) <= set(rules)
