"""Text of agents is safe to display."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering import text as text_module
from dashboard.rendering.text import terminal, visible
from historyapp.core.short_targets import short_target, short_targets, target_of_step

anything = st.text(st.characters(codec=None, exclude_categories=()))
escapes = st.sampled_from(
    ["\x1b[31m", "\x1b[0m", "\x1b[1;92m", "\x1b[38;5;9m", "\x1b]8;;http://x\x1b\\", "\x1b[2J", "\x1b", "\r"]
)
terminal_text = st.lists(anything | escapes).map("".join)


@given(terminal_text)
def test_any_text_can_be_sent_to_a_browser(text: str) -> None:
    for shown in (visible(text), terminal(text)):
        shown.encode()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", shown)


@given(terminal_text)
def test_terminal_output_has_no_tags_except_colours(text: str) -> None:
    markup = re.findall("<[^>]*>", terminal(text))
    assert all(re.fullmatch(r'</span>|<span class="[a-z0-9 -]+">', tag) for tag in markup)
    assert markup.count("</span>") * 2 == len(markup)


@given(terminal_text)
def test_colours_change_no_character(text: str) -> None:
    assert unescape(re.sub("<[^>]*>", "", terminal(text))) == visible(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\ufffdb"),
        ("caf\udce9", "caf\ufffd"),
        ("\u202etxt.exe", "[U+202E]txt.exe"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("\x1b]0;title\x07shell", "shell"),
        ("שלום", "שלום"),
        ("\x1b", "\ufffd"),
    ],
)
def test_invisible_characters_become_visible_signs(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-31">red</span> plain'),
        (
            "\x1b[1m\x1b[92mboth\x1b[22m green",
            '<span class="weight-1 ansi-92">both</span><span class="ansi-92"> green</span>',
        ),
        ("\x1b[32mok\x1b[39m!", '<span class="ansi-32">ok</span>!'),
        ("\x1b[mreset", "reset"),
        ("\x1b[38;5;196mpalette", '<span class="ansi-31">palette</span>'),
        ("\x1b[99999999mx", "x"),
        ("\x1b[31m<b>", '<span class="ansi-31">&lt;b&gt;</span>'),
    ],
)
def test_terminal_colours_become_classes(text: str, shown: str) -> None:
    assert terminal(text) == shown


def test_the_rest_of_a_long_line_of_a_terminal_has_no_colours() -> None:
    html = terminal("\x1b[31ma\x1b[0mb" * 5_000 + "\n\x1b[31mend")
    assert html.count("<span") == 2_502
    assert re.sub("<[^>]*>", "", html) == "ab" * 5_000 + "\nend"


@pytest.mark.parametrize("start", range(0, 40, 3))
def test_a_long_text_is_made_visible_in_parts(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    """31 MB of escape sequences stopped all other threads for four seconds."""
    long = ("a \x1b[31mred\x1b[0m\r\n\u202e\x1b]8;;http://x\x1b\\link\x07" * 20)[start:]
    whole, translated = visible(long), list[int]()
    monkeypatch.setattr(text_module, "PART", 60)
    expression = text_module._ESCAPES

    class Noted:
        match = expression.match

        def sub(self, replacement: str, part: str) -> str:
            translated.append(len(part))
            return expression.sub(replacement, part)

    monkeypatch.setattr(text_module, "_ESCAPES", Noted())
    assert visible(long) == whole
    assert max(translated) <= 60 + len("\x1b]8;;http://x\x1b\\")


@pytest.mark.parametrize("link", ["\x1b]8;;{}\x1b\\", "\x1b]8;;{}\x07", "\x1b[{}m"])
def test_no_part_of_a_long_escape_sequence_is_shown(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    monkeypatch.setattr(text_module, "PART", 60)
    for start in range(0, 70, 7):
        assert visible("a" * start + link.format("1" * 200) + "b" * 90) == "a" * start + "b" * 90


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("cd /testbed && sed -n 1p a.py", "sed -n 1p a.py"),
        ('cd "/my work" && make', "make"),
        ("cd /a; cd b && make", "make"),
        ("cd /c/starcar git status --short", "git status --short"),  # two lines, joined
        ("cd $ROOT && /usr/lib/x/bin/go test", "…/bin/go test"),
        (r"C:\Users\me\src\docs\setup.md", r"…\docs\setup.md"),
        ("cd /testbed", "cd /testbed"),
        ("cd - && ls", "cd - && ls"),
        ("cd /a 2>/dev/null && ls", "cd /a 2>/dev/null && ls"),
        ("cd /a || exit", "cd /a || exit"),
        ("cd $(mktemp -d) && ls", "cd $(mktemp -d) && ls"),
        ("cd /a; && ls", "cd /a; && ls"),
    ],
)
def test_a_target_is_shown_without_the_folder_that_the_command_enters(target: str, shown: str) -> None:
    assert short_target(target) == shown


def test_commands_that_differ_only_in_their_folders_keep_these() -> None:
    commands = ["cd /a && npm test", "cd /b && npm test", "cd /a && make"]
    assert [*short_targets([*commands, *commands]).values()] == [*commands[:2], "make"]


@pytest.mark.parametrize(
    ("error_line", "shown"),
    [
        ("bash: line 1: cd: /a: No such file or directory", "cd /a && make"),
        ("sh: 1: cd: can't cd to /a", "cd /a && make"),
        ("(eval):cd:1: no such file or directory: /a", "cd /a && make"),  # zsh
        ("make: *** [Makefile:1: abcd: bad] Error 1", "make"),
        ("", "make"),
    ],
)
def test_the_target_of_a_step_keeps_only_a_folder_that_was_not_entered(error_line: str, shown: str) -> None:
    assert target_of_step("cd /a && make", error_line) == shown
