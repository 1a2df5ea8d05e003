"""Splits a text at the names in it, so that a page can mark them in place."""

from collections.abc import Collection
from typing import NamedTuple

from historyapp.core.identifiers import identifier_places, word_places


class TextPiece(NamedTuple):
    """A piece of a text; ``is_name``: whether it is one of the names."""

    text: str
    is_name: bool = False


def mark_names(text: str, words: Collection[str], others: Collection[str] = ()) -> list[TextPiece]:
    """The pieces of a text in order. Joined, they are the text.

    Args:
        words: names that are found as whole words, also within longer names. The time grows with their number
            times the length of the text, so there should be few of them.
        others: names that are found only as separate identifiers. There may be many.
    """
    places = [(start, name) for name in words for start in word_places(name, text)]
    places += [(start, name) for start, name in identifier_places(text) if name in others] if others else []
    pieces: list[TextPiece] = []
    end = 0
    for start, name in sorted(places, key=lambda place: (place[0], -len(place[1]))):
        if start >= end:
            pieces += [TextPiece(text[end:start])] if start > end else []
            pieces.append(TextPiece(name, is_name=True))
            end = start + len(name)
    return [*pieces, TextPiece(text[end:])] if end < len(text) else pieces
