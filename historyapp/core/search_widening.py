"""Rewrites a query that no single step matches, so that different steps of one session may match it."""

from collections.abc import Sequence

from historyapp.core.search_query import (
    FILE_NAME,
    MAX_CHARACTERS,
    MAX_GROUPS,
    STEP_FACETS,
    QueryWord,
    SearchQuery,
    asks_for_notes,
    query_words,
)
from historyapp.core.search_tokens import tokens_of

_OUTCOMES = ("error", "failure")
_FAILED = {"fail", "failed", "failing", "fails", "failure", "failures"}
_EDITED = {"change", "changed", "changes", "edit", "edited", "edits", "modified", "modify", "wrote"}
_TESTS = {"test", "tests"}
_MARKS = ".,;:!?"
_FILLERS = {
    "a", "after", "afterwards", "an", "and", "are", "as", "at", "because", "before", "but", "by", "did",
    "do", "does", "during", "finally", "for", "from", "had", "has", "have", "in", "into", "is", "it",
    "its", "later", "of", "on", "once", "or", "run", "runs", "session", "sessions", "so", "step",
    "steps", "that", "the", "their", "then", "there", "they", "this", "to", "was", "were", "what",
    "when", "where", "which", "while", "who", "why", "with",
}  # fmt: skip
"""English words of a question that say nothing about a step."""


def widen_query(text: str, *, only_sentences: bool = False) -> str:
    """The query with ``AND`` between parts that different steps may match; empty if that changes nothing.

    Filters that name a call (``tool:``, ``file:``, ``has:edit``) stay together, and so do those about how a
    command ended (``command:``, ``status:``, ``has:failure``). Each word and phrase becomes a separate part,
    except that words of a question are read as filters: "edited parser.py and failed its tests" becomes
    ``file:parser.py has:edit AND has:failure test*``.

    Args:
        only_sentences: return a query only if words are read as filters.
    """
    query = SearchQuery()
    words = list(query_words(text, query))
    if any(word.is_and for word in words):
        return ""
    groups: dict[object, list[str]] = {}
    session_filters = [f"{each.name}{each.operator}{each.value}" for each in query.conditions]
    excluded: list[str] = []
    is_sentence = False
    for index, word in enumerate(words):
        if word.is_excluded:
            excluded.append(_written(word))
        elif word.facet in STEP_FACETS and not asks_for_notes(word):
            has_outcome = word.facet == "has" and word.text in _OUTCOMES
            kind = "outcome" if has_outcome or word.facet in ("command", "status") else "call"
            groups.setdefault(kind, []).append(_written(word))
        elif word.facet:
            session_filters.append(_written(word))
        elif not word.is_quoted and (as_filter := _as_filter(word.text.strip(_MARKS), words)):
            groups.setdefault(as_filter[0], []).append(as_filter[1])
            is_sentence = True
        elif word.is_quoted or (word.text.lower().strip(_MARKS) not in _FILLERS and tokens_of(word.text)):
            groups.setdefault(index, []).append(_written(word))
    if not 1 < len(groups) <= MAX_GROUPS or (only_sentences and not is_sentence):
        return ""
    parts = [" ".join([*group, *excluded]) for group in groups.values()]
    wider = " ".join([" AND ".join(parts), *session_filters])
    return wider if len(wider) <= MAX_CHARACTERS else ""


def _as_filter(text: str, words: Sequence[QueryWord]) -> tuple[str, str] | None:
    """The part and the filter of a word of a question, or None if the word is not a filter."""
    texts = {word.text.lower().strip(_MARKS) for word in words if not word.facet}
    fails, edits = texts & _FAILED, texts & _EDITED
    lower = text.lower()
    if lower in fails:
        return "outcome", "has:failure"
    if lower in _TESTS and fails:
        return "outcome", "test*"
    if edits and FILE_NAME.fullmatch(text):
        return "call", f"file:{text}"
    if lower in edits and any(FILE_NAME.fullmatch(other) for other in texts):
        return "call", "has:edit"
    return None


def _written(word: QueryWord) -> str:
    star = "*" if word.is_quoted and word.text.endswith("*") else ""
    value = f'"{word.text.rstrip("*") if star else word.text}"{star}' if word.is_quoted else word.text
    return "-" * word.is_excluded + f"{word.facet}:" * bool(word.facet) + value
