"""Characters that a database cannot store are replaced in text that is only shown."""

from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core import text as module
from historyapp.core.text import clean, decode_surrogates, preview, whole_lines

ANYTHING = st.text(st.characters())
"""Lone surrogates and NUL included."""


@given(ANYTHING)
def test_clean_text_can_be_stored_anywhere(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    cleaned.encode("utf-8")
    assert len(cleaned) == len(text)


@given(ANYTHING)
def test_text_with_lone_surrogates_is_decoded_as_it_was(text: str) -> None:
    with mock.patch.object(module, "PIECE_LENGTH", 3):
        assert decode_surrogates(text.encode("utf-8", "surrogatepass")) == text


class RecordedBytes(bytes):
    """Bytes that record how many of them are decoded at once."""

    lengths: ClassVar[list[int]] = []

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return RecordedBytes(part) if isinstance(part, bytes) else part

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        self.lengths.append(len(self))
        return super().decode(encoding, errors)


def test_lone_surrogates_are_decoded_in_pieces() -> None:
    """28 million of them stopped all other threads for 3.5 s."""
    text = "\udcff" * module.PIECE_LENGTH
    assert decode_surrogates(RecordedBytes(text.encode("utf-8", "surrogatepass"))) == text
    assert max(RecordedBytes.lengths) <= module.PIECE_LENGTH + 2


@given(ANYTHING, st.integers(1, 50))
def test_a_preview_is_one_short_line(text: str, length: int) -> None:
    shown = preview(text, length)
    assert len(shown) <= length
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@given(st.text(st.sampled_from("a/é \t\n\x00\x7f"), max_size=12))
def test_a_preview_of_a_short_text_is_its_words(text: str) -> None:
    assert preview(text) == clean(" ".join(text.split()))


@given(st.text(st.sampled_from("abcdefg \t\u2003é"), min_size=15, max_size=70))
def test_a_preview_of_a_longer_text_is_the_beginning_of_its_words(text: str) -> None:
    words = " ".join(text.split())
    assert preview(text, 20) == (words if len(words) <= 20 else f"{words[:19]}…")


@given(st.text(alphabet="ab \n", max_size=80), st.integers(1, 30))
def test_lines_of_a_text_in_pieces_are_those_of_the_whole(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE_LENGTH", piece)
        assert list(whole_lines(text)) == text.split("\n")


def test_a_long_text_that_is_clean_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request of a model call keeps it until the call ends, beside the context."""
    monkeypatch.setattr(module, "PIECE_LENGTH", 10)
    text = "\U0001f600" * 35
    assert clean(text) is text
    assert clean(text + "\ud800" + text) == text + "\ufffd" + text
