"""The results of a search of all sessions, as its page shows them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote
from zlib import crc32

from django.http import QueryDict
from django.urls import reverse

from dashboard.session_list.step_search import sessions_address
from dashboard.templatetags.playhead import status_label
from historyapp.core.errors import Invalid
from historyapp.core.search_query import QueryWord, SearchQuery, query_words
from historyapp.core.search_snippets import Snippet
from historyapp.models import Session
from historyapp.models.search import MatchingRow, PartMatch, SearchHit
from historyapp.services.search.results import Results

MAX_VALUES = 8
"""Values of a facet that are shown."""
FACETS = {"status": "Outcome", "tool": "Tool", "agent": "Agent", "model": "Model", "tag": "Tag"}
"""Names in a query, and their labels."""
_MAX_DIGITS = 9


class FacetLink(NamedTuple):
    """A value by which the results can be narrowed."""

    label: str
    steps: int
    address: str


class ShownCondition(NamedTuple):
    """A part of the query that a step matches."""

    text: str
    alike: int | None
    """The steps of the session that match it. None: more than were counted."""
    alike_address: str
    """The search for these steps; empty if the session shares steps with others."""
    others: tuple[tuple[int, str], ...]
    """The numbers and addresses of some of the others: the closest ones."""
    follows: int | None
    """The step of the next condition, if this step comes after it."""

    @property
    def are_all_others(self) -> bool:
        return self.alike is not None and len(self.others) >= self.alike - 1


class ShownHit(NamedTuple):
    """A step, with the address where it is shown."""

    session: Session
    step: int
    status: str
    tools: tuple[str, ...]
    address: str
    is_live: bool
    field: str
    pieces: list[tuple[str, bool]]
    """The snippet in order; True: a match."""
    at: datetime
    conditions: tuple[ShownCondition, ...] = ()
    """The parts of the query that the step matches, if different steps may match its parts."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """One page of a search."""

    matches: Results
    text: str

    @property
    def phrase(self) -> str:
        """The query that finds the words side by side, in this order; empty unless it has only words."""
        with suppress(Invalid):
            return _phrase(list(query_words(self.text, SearchQuery())))
        return ""  # a sentence that the search has rewritten

    @property
    def hits(self) -> Iterator[ShownHit]:
        for hit, snippet in self.matches.hits:
            conditions = tuple(self._condition(hit, match) for match in hit.matches)
            yield _shown(hit, snippet)._replace(conditions=conditions)

    def _condition(self, hit: SearchHit, match: PartMatch) -> ShownCondition:
        text, session = self.matches.query.parts[match.part], hit.session
        is_alone = {str(session.pk)} == {str(hit.row.owner), *map(str, hit.lineage.owners)}
        return ShownCondition(
            text=text,
            alike=match.steps,
            alike_address=_address(f"{text} session:{session.pk}") if is_alone else "",
            others=tuple(_place(hit._replace(row=row, live=_is_live(hit, row))) for row in match.others),
            follows=min(match.follows.step, session.steps) if match.follows else None,
        )

    @property
    def sessions_address(self) -> str:
        """The list of the sessions that this search finds; empty if the query is too long for it."""
        return sessions_address(self.query)

    @property
    def offered_address(self) -> str:
        """The search for sessions in which different steps match the sentence."""
        return _address(self.matches.offered)

    @property
    def query(self) -> str:
        """The query that matched."""
        return self.matches.wider or self.text

    @property
    def facets(self) -> list[tuple[str, list[FacetLink]]]:
        """Each facet that divides the results, with its most frequent values."""
        counted = self.matches.page.facets
        shown = []
        for name, title in FACETS.items():
            values = counted[name].most_common(MAX_VALUES) if name in counted else []
            links = []
            for value, count in values:
                quoted = value.replace('"', " ")
                condition = f'{name}:"{quoted}"' if " " in quoted else f"{name}:{quoted}"
                label = status_label(value) if name == "status" else value
                links.append(FacetLink(label, count, _address(f"{self.query} {condition}")))
            if links:
                shown.append((title, links))
        return shown

    @property
    def next(self) -> str:
        """The address of the next page, or empty."""
        row = self.matches.page.next
        return "" if row is None else _address(self.query, cursor=f"{row}.{_hash(self.query)}")


def read_cursor(text: str, cursor: str) -> int | None:
    """The row before which the page begins, or None for the first page.

    Raises:
        Invalid: when the cursor belongs to another query.
    """
    if not cursor:
        return None
    row, _, query_hash = cursor.partition(".")
    is_number = row.isascii() and row.isdecimal() and len(row) <= _MAX_DIGITS
    if not is_number or query_hash != _hash(text):
        raise Invalid("This page belongs to another search. Press Search to start again.")
    return int(row)


def _hash(text: str) -> str:
    return f"{crc32(text.strip().encode('utf-8', 'surrogatepass')):08x}"


def _address(text: str, **fields: str) -> str:
    query = QueryDict(mutable=True)
    query.update({"q": text, **fields})
    return f"{reverse('search')}?{query.urlencode()}"


def _phrase(words: list[QueryWord]) -> str:
    is_plain = not any(word.facet or word.is_quoted or word.is_excluded or word.is_and for word in words)
    shown = " ".join(word.text for word in words)
    return f'"{shown}"' if len(words) > 1 and is_plain and not {'"', "*"} & set(shown) else ""


def _is_live(hit: SearchHit, row: MatchingRow) -> bool:
    return hit.lineage.contains(str(row.owner), row.anchor)


def _place(hit: SearchHit) -> tuple[int, str]:
    """The number of a step, and the address where it is shown."""
    step = min(hit.row.step, hit.session.steps) if hit.live else hit.row.step
    address = f"{reverse('session', args=[hit.session.pk])}?step={step}"
    if not hit.live:  # a step that a rewind cut off is shown as it was then
        address += f"&as_of={hit.row.last}"
    return step, address


def _shown(hit: SearchHit, snippet: Snippet | None) -> ShownHit:
    row = hit.row
    step, address = _place(hit)
    if snippet and snippet.marks:  # the session marks one text: the longest that matched
        first, last = max(snippet.marks, key=lambda mark: mark[1] - mark[0])
        address += f"&find={quote(snippet.text[first:last])}"
    pieces: list[tuple[str, bool]] = []
    if snippet:
        end = 0
        for first, last in snippet.marks:
            pieces += [(snippet.text[end:first], False), (snippet.text[first:last], True)]
            end = last
        pieces.append((snippet.text[end:], False))
    field = snippet.field if snippet else ""
    return ShownHit(hit.session, step, row.status, row.tools, address, hit.live, field, pieces, row.at)
