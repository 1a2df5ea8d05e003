"""Says which parts of a query look like filters or operators, but are searched as words."""

import re
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches

from historyapp.core.errors import Invalid
from historyapp.core.search_query import FACETS, NUMBERS, TAKES, QueryWord, SearchQuery, query_words

MAX_HINTS = 3
_FILTER_LIKE = re.compile(r"\(?([A-Za-z_]{2,20})(:|[<>]=?)(?!//|[:\\])(.+)", re.DOTALL)
"""A name and a value. Not the beginning of ``http://a.b`` or ``std::vector``."""
_NUMBER = re.compile(r"[0-9][0-9.,_]*[a-z]{0,4}", re.IGNORECASE)
_OTHER_NAMES = {
    "after": "since", "before": "until", "cmd": "command", "date": "since", "error": "has", "failed": "has",
    "from": "since", "id": "session", "name": "title", "outcome": "status", "path": "file", "price": "cost",
    "result": "status", "to": "until",
}  # fmt: skip
_OF_LIST = ("folder", "repository")
"""Filters of the list of sessions that the search does not have."""
_OR = "OR is searched as a word, and all words must match. Search for each alternative separately."
_NOT = "NOT is searched as a word. To exclude a word, write - directly before it."
_PARENTHESES = "Parentheses are ignored. A query has no groups."


def hints_of(text: str) -> list[str]:
    """A sentence for each part that a person may have meant as a filter or an operator, at most three."""
    with suppress(Invalid):
        words = list(query_words(text, SearchQuery()))
        return list(dict.fromkeys(_hints(words)))[:MAX_HINTS]
    return []


def _hints(words: list[QueryWord]) -> Iterator[str]:
    written = [word.text for word in words if not word.facet and not word.is_quoted]
    for word in written:
        if match := _FILTER_LIKE.fullmatch(word):
            yield from _hints_of_filter(*match.groups())
    for name, hint in (("OR", _OR), ("NOT", _NOT)):
        if {name, f"({name}"} & set(written):
            yield hint
    if any(word.startswith("(") for word in written) and {"AND", "OR", "NOT", "(NOT"} & set(written):
        yield _PARENTHESES


def _hints_of_filter(name: str, operator: str, value: str) -> Iterator[str]:
    is_number = _NUMBER.fullmatch(value) is not None
    if operator != ":" and not is_number:
        return  # a->b, List<T>
    lower = name.lower()
    if lower in NUMBERS:
        yield f"-{lower}{operator} is searched as words. Reverse the comparison instead: {lower}<100."
        return
    known = lower if lower in FACETS else _OTHER_NAMES.get(lower, "")
    alike = [each for each in FACETS if each[0] == lower[0]]  # GET:/x is not agent:
    known = known or next(iter(get_close_matches(lower, alike, 1, 0.75)), "")
    if not known and (not name.islower() or (operator == ":" and is_number)):
        return  # TypeError:x, localhost:8000
    start = f"{name}{operator} is not a filter of the search and is searched as words."
    if known:
        yield f"{start} Did you mean {known}{'>' if known in NUMBERS else ':'}?"
    elif lower in _OF_LIST:
        yield f"{start} The list of sessions can be filtered by {lower}."
    else:
        filters = ", ".join(f"{each}{'>' if each in NUMBERS else ':'}" for each in FACETS if each != TAKES)
        yield f"{start} Filters: {filters}."
