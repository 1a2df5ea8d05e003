"""Texts are split equally for every database, and names are found whole and in parts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.search_tokens import (
    MAX_TOKEN,
    compound_names,
    parts_of,
    phrase_places,
    token_pieces,
    tokens_of,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("EnsureSetup", ["ensure", "setup"]),
        ("hooks_test.go", ["hooks", "test", "go"]),
        ("go test ./...", ["go", "test"]),
        ("HTTPServer2", ["http", "server2"]),
        ("中文搜索", ["中", "文", "搜", "索"]),
        ("テスト", ["テ", "ス", "ト"]),
        ("الْعَرَبِيَّة", ["العربية"]),
        ("Café ＡＢＣ", ["cafe", "abc"]),
        ("한국어", ["한", "국", "어"]),
        ("aGVsbG8gd29ybGQ3X1Zk", ["agvsbg8gd29ybgq3x1zk"]),
        ("a\u037ab \ufdfa \u2474x", ["ab", "صلىاللهعليهوسلم", "1x"]),
        ("% * \" ' \0 \ud800", []),
    ],
)
def test_names_are_split_into_their_parts(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens


def test_a_split_name_is_also_found_as_a_whole() -> None:
    assert list(compound_names("call EnsureSetup and go")) == ["ensuresetup"]


def test_a_phrase_is_found_at_its_place() -> None:
    text = "then EnsureSetup() failed"
    places = list(phrase_places(token_pieces(text), ("ensure", "setup"), is_prefix=False))
    assert [text[place.start : place.stop] for place in places] == ["EnsureSetup"]
    assert list(phrase_places(token_pieces(text), ("ensuresetup",), is_prefix=False)) == [range(5, 16)]
    assert list(phrase_places(token_pieces(text), ("fai",), is_prefix=True)) == [range(19, 25)]
    assert list(phrase_places(token_pieces(text), ("fai",), is_prefix=False)) == []


def test_no_letter_is_spelled_with_a_separator() -> None:
    """A token of 40 such letters became 20 words of the index."""
    for spelled in filter(unicodedata.decomposition, map(chr, range(0x110000))):
        for token in tokens_of(f"a{spelled}b"):
            assert all(unicodedata.category(letter)[0] in "LNM" for letter in token), hex(ord(spelled))


@given(st.text())
def test_no_token_is_empty_long_or_holds_a_separator(text: str) -> None:
    for token in tokens_of(text):
        assert 0 < len(token) <= MAX_TOKEN
        assert not any(letter.isspace() for letter in token)
        assert not set(token) & set("'\"\\ \ue000\ue00a")


@given(st.text())
def test_places_have_the_tokens_of_the_text(text: str) -> None:
    assert [token for piece in token_pieces(text) for token in piece.tokens] == tokens_of(text)
    assert all(parts_of(text[piece.start : piece.end]) == piece.tokens for piece in token_pieces(text))
