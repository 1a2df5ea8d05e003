"""Suggests completions of a search while it is typed: filters, their values in the project, and words."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from uuid import UUID

from historyapp.core.call_subjects import call_subject
from historyapp.core.entries import ModelOutput, load_body
from historyapp.core.lineage import Span
from historyapp.core.search_documents import calls_of
from historyapp.core.search_query import MIN_PREFIX, SearchQuery, Term
from historyapp.core.search_suggestions import (
    MAX_SUGGESTIONS,
    LastWord,
    Suggestion,
    facet_names,
    fixed_values,
    last_word,
    suggested,
)
from historyapp.core.search_tokens import tokens_of
from historyapp.core.searchable import passages
from historyapp.models import Session
from historyapp.models.search import LAST, MatchingRow, ProjectSearch
from historyapp.models.search_limits import limit_statements
from historyapp.models.short_entries import short_entries
from historyapp.wire.problems import SearchTooSlow

MAX_SESSIONS = 500
"""Models, agents, tags and titles are taken from this many newest sessions."""
MAX_STEPS = 40
"""Files, commands, tools and words are taken from this many newest steps with the word, without the longest
entries; see :data:`historyapp.models.short_entries.MAX_SIZE`."""
MAX_CHARACTERS = 20_000
"""At most this many characters of each text of these steps are searched."""
SECONDS = 0.25
"""The time limit for finding the steps."""
_WORD = re.compile(r"[^\W_][\w./:-]{0,79}")


def suggestions(project: UUID, text: str) -> tuple[int, list[Suggestion]]:
    """The position of a query's last word, and suggestions to replace it."""
    word = last_word(text)
    choices = dict.fromkeys(islice(_suggest(project, word), MAX_SUGGESTIONS))
    return word.start, [choice for choice in choices if choice.text != text[word.start :]]


def _suggest(project: UUID, word: LastWord) -> Iterator[Suggestion]:
    if word.facet:
        fixed = fixed_values(word)
        yield from fixed if fixed is not None else suggested(word, _values(project, word))
        return
    yield from facet_names(word)
    if len(word.value) >= MIN_PREFIX:
        yield from suggested(word, _words(project, word), "")


def _values(project: UUID, word: LastWord) -> Iterable[str]:
    """The values of a filter in the project's newest sessions or steps, the most frequent first."""
    if word.facet in ("model", "agent", "title"):
        rows = Session.objects.filter(project=project).exclude(status=Session.Status.ARCHIVED)
        values = rows.newest_first().values_list(word.facet, flat=True)[:MAX_SESSIONS]
        return _most_frequent(values)
    if word.facet == "tag":
        texts = Session.objects.filter(project=project).exclude(tags_text="\n").newest_first()
        lines = texts.values_list("tags_text", flat=True)[:MAX_SESSIONS]
        return _most_frequent(tag for line in lines for tag in line.split("\n"))
    steps = list(_steps(project, word)) if word.facet in ("tool", "file", "command") else []
    if word.facet == "tool":
        return _most_frequent(tool for step in steps for tool in step.tools)
    return _most_frequent(_subjects(steps, word.facet)) if steps else ()


def _most_frequent(values: Iterable[str]) -> list[str]:
    return [value for value, _ in Counter(values).most_common()]


def _steps(project: UUID, word: LastWord) -> list[MatchingRow]:
    """The newest live steps with the word, or with a value of its filter that begins with it."""
    tokens = tuple(tokens_of(word.value))
    is_prefix = bool(tokens) and len(tokens[-1]) >= MIN_PREFIX and word.value[-1:].isalnum()
    if tokens and not is_prefix:
        tokens = tokens[:-1]  # a prefix of one or two letters matches too many words
    terms = [Term(word.facet, tokens, is_prefix)] if tokens else []
    if not terms and word.facet in ("file", "command"):
        terms = [Term("has", ("shell" if word.facet == "command" else "edit",))]
    with suppress(SearchTooSlow), limit_statements(SECONDS):
        search = ProjectSearch(project, SearchQuery([terms]))
        return [hit.row for hit in search.hits(search.candidates(None, LAST, MAX_STEPS))]
    return []


def _subjects(steps: Iterable[MatchingRow], facet: str) -> Iterator[str]:
    """The files or the commands of steps."""
    spans = [Span(str(step.owner), step.anchor, step.anchor) for step in steps]
    for entry in short_entries(spans):
        output = load_body(entry.kind, entry.body)
        if not isinstance(output, ModelOutput):
            continue
        for tool_call in calls_of(output):
            subject = call_subject(tool_call.name, tool_call.arguments)
            if facet == "file":
                yield from subject.files
            elif subject.kind == "shell" and subject.target:
                yield subject.target


def _words(project: UUID, word: LastWord) -> list[str]:
    """Words and names in the project's newest steps that begin with the word."""
    spans = [Span(str(step.owner), step.first, step.last) for step in _steps(project, word)]
    counts: Counter[str] = Counter()
    typed = word.value.lower()
    beginning = re.compile(rf"(?<![^\W_]){re.escape(typed)}", re.IGNORECASE)
    for entry in short_entries(spans):
        names = {
            name[0].rstrip("./:-")
            for passage in passages(entry.position, 0, entry.kind, entry.body)
            for match in beginning.finditer(passage.text, 0, MAX_CHARACTERS)
            if (name := _WORD.match(passage.text, match.start()))
        }
        counts.update(names)
    return [name for name, _ in counts.most_common() if name.lower() != typed]
