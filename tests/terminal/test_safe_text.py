"""Text of an agent never controls the terminal."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.terminal.safe_text import safe_json, safe_line, safe_text

HOSTILE = {
    "writes to the clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "changes the title": "\x1b]0;root@host\x07",
    "moves the cursor": "\x1b[1;1H\x1b[2Jgone",
    "overwrites the line": "rm -rf ~\rls   ",
    "makes a link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "asks the terminal to type": "\x1b[6n\x1b[c\x05",
    "eight-bit sequences": "\x9b31m\x9d0;title\x9c",
    "turns text round": "safe\u202eexe.txt\u2066",
    "hides characters": "a\u200bb\ufeffc\u2060",
    "tags": "a\U000e0041b",
    "erases": "visible\x08\x08\x08\x7f",
    "lone surrogates": "a\ud800b",
    "separates lines": "a\u2028b\u2029c\x85d\x0bd\x0c",
}
CONTROLS = {"Cc", "Cs", "Zl", "Zp"}


def is_harmless(text: str) -> bool:
    return all(unicodedata.category(c) not in CONTROLS and c not in "\u202e\u2066\u200b" for c in text)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_control_sequence_is_left(text: str) -> None:
    assert is_harmless(safe_text(text))
    assert is_harmless(safe_json({"text": text}))
    assert safe_text(text) != text


@given(st.text(st.characters()), st.sampled_from(list(HOSTILE.values())))
def test_no_text_controls_a_terminal(text: str, hostile: str) -> None:
    mixed = text + hostile + text
    assert is_harmless(safe_text(mixed).replace("\n", ""))
    assert is_harmless(safe_line(mixed))
    safe_text(mixed).encode()


@pytest.mark.parametrize("text", ["", "plain", "naïve Größe", "修复解析器　完", "שלום", "👩\u200d💻", "a\nb"])
def test_harmless_text_is_unchanged(text: str) -> None:
    assert safe_text(text) == text


def test_colours_are_left_out_and_lines_stay() -> None:
    assert safe_text("\x1b[1;31mFAILED\x1b[0m test\r\n\tline") == "FAILED test\n    line"
    assert safe_line("a\n\n b\t c") == "a b c"


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_printed_json_has_the_original_value(value: Any) -> None:
    assert json.loads(safe_json(value)) == value
    assert json.loads(safe_json([*HOSTILE.values()])) == [*HOSTILE.values()]
