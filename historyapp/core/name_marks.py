"""Splits a text at the names in it, so that a page can mark them in place."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from historyapp.core.identifiers import identifier_places, is_whole_word

MAX_PLACES = 20_000
"""Places where a name begins, also within a longer word, that are compared in the texts of one row: 10 ms."""


class TextPiece(NamedTuple):
    """A piece of a text; ``is_name``: whether it is one of the names."""

    text: str
    is_name: bool = False


class MarksLeft:
    """How many places of names may still be compared in the texts of one row."""

    def __init__(self, places: int = MAX_PLACES) -> None:
        self.places = places


def mark_names(
    text: str, words: Collection[str], others: Collection[str] = (), left: MarksLeft | None = None
) -> list[TextPiece]:
    """The pieces of a text in order. Joined, they are the text.

    Args:
        words: names that are found as whole words, also within longer names. The time grows with their number
            times the length of the text, so there should be few of them.
        others: names that are found only as separate identifiers. There may be many.
        left: shared with other texts. Once it is used up, no further words are marked.
    """
    left = left or MarksLeft()
    places = [(start, name) for name in words for start in _places(name, text, left)]
    places += [(start, name) for start, name in identifier_places(text) if name in others] if others else []
    pieces: list[TextPiece] = []
    end = 0
    for start, name in sorted(places, key=lambda place: (place[0], -len(place[1]))):
        if start >= end:
            pieces += [TextPiece(text[end:start])] if start > end else []
            pieces.append(TextPiece(name, is_name=True))
            end = start + len(name)
    return [*pieces, TextPiece(text[end:])] if end < len(text) else pieces


def _places(name: str, text: str, left: MarksLeft) -> Iterator[int]:
    """Where the name begins as a whole word."""
    start = text.find(name)
    while start >= 0 and left.places > 0:
        left.places -= 1
        if is_whole_word(text, start, start + len(name)):
            yield start
        start = text.find(name, start + 1)
