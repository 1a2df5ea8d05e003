"""Completions for the last word of a search that follow from the query language alone."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from historyapp.core.episodes import STATUSES
from historyapp.core.search_documents import LIKELY_FAILED
from historyapp.core.search_query import FACETS, HAS, NOTE

MAX_SUGGESTIONS = 10
MAX_VALUE = 200
"""Characters of a suggested value. Longer ones are left out."""
_MEANINGS = {
    "tool": "the step called it", "file": "the step read or changed it", "command": "the step ran it",
    "status": "how the step ended", "has": "what the step contains", "kind": "what the step called",
    "model": "of the session", "agent": "of the session", "tag": "of the session", "title": "of the session",
    "session": "by its ID", "cost": "in US dollars, of the session", "tokens": "of the session",
    "steps": "of the session", "errors": "of the session", "score": "of the session",
    "since": "7d, or a date", "until": "7d, or a date",
    "takes": "also steps that rewinds cut off",
}  # fmt: skip
_HAS_MEANINGS = {
    "error": "a reported error", "failure": "an error, or a result that looks like one",
    "answer": "an answer of the agent", "thought": "a thought", "input": "an input before it",
    "review": "a review", NOTE: "a note on the session or one of its steps",
}  # fmt: skip
_COMPARED = ("cost", "tokens", "steps", "errors", "score")
_VALUES = {
    "status": (*STATUSES, LIKELY_FAILED),
    "has": (*HAS[:6], NOTE, *HAS[6:]),
    "kind": HAS[-7:],
    "since": ("today", "1d", "7d", "30d", "1y"),
    "until": ("today", "1d", "7d", "30d"),
    "takes": ("all", "live"),
}


class Suggestion(NamedTuple):
    """A text that can replace the last word."""

    text: str
    detail: str = ""


class LastWord(NamedTuple):
    """The word that is being typed."""

    start: int
    """The character at which it begins."""
    minus: str
    """``-`` if it is excluded."""
    facet: str
    """Empty for a text."""
    value: str


def last_word(text: str) -> LastWord:
    """The last word of an unfinished query, including an open quotation mark."""
    start = max(text.rfind(space) for space in " \t\n") + 1
    if text.count('"') % 2:
        quote = text.rindex('"')
        start = max(text.rfind(space, 0, quote) for space in " \t\n") + 1
    word = text[start:]
    minus = "-" if word.startswith("-") else ""
    name, colon, value = word[len(minus) :].partition(":")
    if colon and name.lower() in FACETS:
        return LastWord(start, minus, name.lower(), value.strip('"'))
    return LastWord(start, minus, "", word[len(minus) :].strip('"'))


def facet_names(word: LastWord) -> Iterator[Suggestion]:
    """The filters whose names begin with the word; all filters for an empty word."""
    if word.facet:
        return
    for name in FACETS:
        if name.startswith(word.value.lower()):
            yield Suggestion(word.minus + name + (">" if name in _COMPARED else ":"), _MEANINGS[name])


def fixed_values(word: LastWord) -> Iterator[Suggestion] | None:
    """The values of a filter that has a fixed list of them; None for other filters."""
    values = _VALUES.get(word.facet)
    if values is None:
        return None
    suggestions = suggested(word, values)
    if word.facet != "has":
        return suggestions
    kinds = ((suggestion, suggestion.text.rpartition(":")[2]) for suggestion in suggestions)
    return (
        suggestion._replace(detail=_HAS_MEANINGS.get(kind, f"a call of the kind {kind}"))
        for suggestion, kind in kinds
    )


def suggested(word: LastWord, values: Iterable[str], detail: str = "") -> Iterator[Suggestion]:
    """Values as written in a query: first those that begin with the word, then those that contain it."""
    beginning, typed = list[str](), word.value.lower()
    containing = list[str]()
    for value in dict.fromkeys(values):
        if value and '"' not in value and len(value) <= MAX_VALUE and value.isprintable():
            folded = value.lower()
            if folded.startswith(typed):
                beginning.append(value)
            elif typed in folded:
                containing.append(value)
    prefix = f"{word.facet}:" * bool(word.facet)
    for value in (*beginning, *containing):
        written = f'"{value}"' if any(character.isspace() for character in value) else value
        yield Suggestion(f"{word.minus}{prefix}{written}", detail)
