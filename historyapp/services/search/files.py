"""Finds files of a project by words of their paths, in the index of the search."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from historyapp.core.call_subjects import call_subject
from historyapp.core.entries import ModelOutput, load_body
from historyapp.core.lineage import Span
from historyapp.core.search_documents import calls_of
from historyapp.core.search_query import MIN_PREFIX, SearchQuery, Term
from historyapp.core.search_tokens import tokens_of
from historyapp.core.text import fold
from historyapp.models.search import LAST, ProjectSearch, SearchHit
from historyapp.models.search_limits import limit_statements
from historyapp.models.short_entries import short_entries
from historyapp.services.search.index import catch_up_for_search
from historyapp.wire.problems import SearchTooSlow

MAX_STEPS = 40
"""Files are taken from this many of the newest steps that name a matching file, without the longest outputs;
see :data:`historyapp.models.short_entries.MAX_SIZE`."""
SECONDS = 0.1
"""The time limit for finding the steps."""


class ProjectFile(NamedTuple):
    """A file, and the newest of the steps that were read."""

    path: str
    newest: SearchHit


def project_files(project: UUID, text: str) -> list[ProjectFile]:
    """The files whose paths contain all words of a text, the most recently used first.

    The index of the search finds the steps. Archived sessions are left out. A word must begin where a word of
    the path begins, and only the last one may be incomplete.
    """
    if not _terms(text, is_prefix=True):
        return []
    catch_up_for_search(project)
    words = [fold(word) for word in text.split()]
    found: dict[str, SearchHit] = {}
    hits = _hits(project, text)
    by_place = {(hit.row.owner, hit.row.anchor): hit for hit in hits}
    order = {place: number for number, place in enumerate(by_place)}
    files = sorted(_files(hits), key=lambda file: order[file[0]])
    for place, path in files:
        if all(word in fold(path) for word in words):
            found.setdefault(path, by_place[place])
    return [ProjectFile(path, hit) for path, hit in found.items()]


def _hits(project: UUID, text: str) -> list[SearchHit]:
    """The newest steps that name matching files. If a beginning of words is too common, it must be a word."""
    for is_prefix in (True, False):
        try:
            with limit_statements(SECONDS):
                search = ProjectSearch(project, SearchQuery([_terms(text, is_prefix=is_prefix)]))
                return search.hits(search.candidates(None, LAST, MAX_STEPS))
        except SearchTooSlow:
            continue
    return []


def _terms(text: str, *, is_prefix: bool) -> list[Term]:
    terms = [Term("file", tuple(tokens_of(word))) for word in text.split()]
    if terms and text[-1:].isalnum():
        tokens = terms[-1].tokens
        if is_prefix and tokens and len(tokens[-1]) >= MIN_PREFIX:
            terms[-1] = terms[-1]._replace(is_prefix=True)
        elif is_prefix:
            terms[-1] = terms[-1]._replace(tokens=tokens[:-1])  # one or two letters begin too many words
    return [term for term in terms if term.tokens]


def _files(hits: Sequence[SearchHit]) -> Iterator[tuple[tuple[UUID, int], str]]:
    """The place of the output of each step, with each file that its calls name."""
    spans = [Span(str(hit.row.owner), hit.row.anchor, hit.row.anchor) for hit in hits]
    for entry in short_entries(spans):
        output = load_body(entry.kind, entry.body)
        if isinstance(output, ModelOutput):
            for tool_call in calls_of(output):
                for path in call_subject(tool_call.name, tool_call.arguments).files:
                    yield (UUID(entry.session), entry.position), path
