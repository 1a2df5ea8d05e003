"""Makes snippets: the part of a step that shows the match."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from historyapp.core.search_documents import searched_parts
from historyapp.core.search_query import Term
from historyapp.core.search_tokens import is_in_a_token, phrase_places, token_pieces
from historyapp.core.searchable import Passage, lowered

AROUND = 90
"""Characters on each side of the first match."""
_WINDOW = 400
"""Characters that are split around a place where a match may be."""
_MAX_TRIES = 8
"""The maximum number of places of one text that are examined."""
_FIRST = ("call", "answer", "input", "thought", "result")
"""The fields that a snippet shows for a step that was found only by facets."""


class Snippet(NamedTuple):
    """A text on one line, and the ranges of it that match."""

    position: int
    field: str
    text: str
    marks: tuple[tuple[int, int], ...]
    """The start and the exclusive end of each match."""


def snippet_of(passages: Sequence[Passage], terms: Sequence[Term]) -> Snippet | None:
    """The snippet of the text with most of the terms; None if there is no text."""
    best: tuple[int, Passage, str, int] | None = None
    for passage in passages:
        for part in searched_parts(passage.text):
            offsets = [place for term in terms if (place := _first_place(part, term)) is not None]
            if offsets and (best is None or len(offsets) > best[0]):
                best = len(offsets), passage, part, min(offsets)
                if len(offsets) == len(terms):
                    return _cut(*best[1:], terms)
    if best is not None:
        return _cut(*best[1:], terms)
    candidates = [passage for passage in passages if passage.field in _FIRST]
    first = min(candidates, key=lambda passage: _FIRST.index(passage.field), default=None)
    return _cut(first, first.text, 0, terms) if first else None


def _first_place(text: str, term: Term) -> int | None:
    """The first place of a term, or None. A text is split as a whole only if its accents or wide letters may
    hide the term.
    """
    folded = lowered(text)
    at = folded.find(term.tokens[0])
    if at < 0 and not text.isascii() and is_in_a_token(term.tokens[0], text):
        return next((place.start for place in _places(text, term, 0, len(text))), None)
    for _ in range(_MAX_TRIES):
        if at < 0:
            break
        place = next(_places(text, term, _word_start(text, at), at + _WINDOW), None)
        if place is not None:
            return place.start
        at = folded.find(term.tokens[0], at + _WINDOW)
    return None


def _word_start(text: str, at: int) -> int:
    start = at
    while start > max(0, at - 60) and text[start - 1].isalnum():
        start -= 1
    return start


def _places(text: str, term: Term, start: int, end: int) -> Iterator[range]:
    end = min(end, len(text))
    yield from phrase_places(token_pieces(text, start, end), term.tokens, is_prefix=term.is_prefix)
    if term.lower:
        pieces = token_pieces(lowered(text), start, end)
        yield from phrase_places(pieces, term.lower, is_prefix=term.is_prefix)


def _cut(passage: Passage, text: str, at: int, terms: Iterable[Term]) -> Snippet:
    """The text around a place, on one line, with the matches in it."""
    start, end = _word_start(text, max(0, at - AROUND // 2)), min(len(text), at + 2 * AROUND)
    matches = sorted(
        {(place.start, place.stop) for term in terms for place in _places(text, term, start, end)}
    )
    shown, marks = "…" if start else "", list[tuple[int, int]]()
    reached = start
    for first, last in matches:
        if first < reached:
            continue
        shown = _join(shown, text[reached:first])
        mark_start = len(shown)
        shown += " ".join(text[first:last].split())
        marks.append((mark_start, len(shown)))
        reached = last
    shown = _join(shown, text[reached:end]).rstrip() + ("…" if end < len(text) else "")
    return Snippet(passage.position, passage.field, shown, tuple(marks))


def _join(before: str, text: str) -> str:
    """Adds a text with each run of white space as one space."""
    inner = " ".join(text.split())
    space = " " if text[:1].isspace() and before and not before.endswith(" ") else ""
    return before + space + inner + (" " if inner and text[-1:].isspace() else "")
