"""The query language of the search across sessions: words, phrases, prefixes and facets.

One step must match all of them. The parts on both sides of an ``AND`` in capitals may match different steps
of one session.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from historyapp.core.episodes import STATUSES
from historyapp.core.errors import Invalid
from historyapp.core.search_documents import GAP, LIKELY_FAILED, MARKS
from historyapp.core.search_tokens import is_unspaced, tokens_of

MAX_CHARACTERS = 500
MAX_TERMS = 24
MAX_TOKENS_OF_TERM = 40
MAX_GROUPS = 8
MIN_PREFIX = 3
"""The minimum number of letters before a ``*``. Fewer would match most steps."""
STEP_FACETS = ("tool", "file", "command", "status", "has", "kind")
"""Filters that are compared with a step."""
SESSION_FACETS = ("model", "agent", "tag", "title", "session")
"""Filters that are compared with the session."""
NUMBERS = ("cost", "tokens", "steps", "errors", "score")
"""Filters by a total or the score of the session, with ``>``, ``>=``, ``<`` or ``<=``."""
TIMES = ("since", "until")
TAKES = "takes"
FACETS = (*STEP_FACETS, *SESSION_FACETS, *NUMBERS, *TIMES, TAKES)
HAS = (
    "error", "failure", "answer", "thought", "input", "review", "shell", "read", "edit", "search", "web",
    "plan", "agent",
)  # fmt: skip
NOTE = "note"
"""``has:note`` is a condition on sessions: notes are not in the log."""
_COMPARISON = re.compile(rf"({'|'.join(NUMBERS)})([<>]=?)(-?[0-9.,_]{{1,20}})(k|m)?(?!\S)", re.IGNORECASE)
_FILTER = re.compile(rf"(?<!\S)-?(?:(?:{'|'.join(FACETS)}):|(?:{'|'.join(NUMBERS)})[<>])", re.IGNORECASE)
_NO_COMPARISON = re.compile(rf"({'|'.join(NUMBERS)})([<>]=?)\S*", re.IGNORECASE)
FILE_NAME = re.compile(r"[\w./-]{0,200}\.[A-Za-z][A-Za-z0-9]{0,5}")
"""A word that looks like the name of a file. Its ending is the part after the last dot."""
_INNER_ENDINGS = {"d", "min", "spec", "stories", "test"}
"""Endings that usually stand before another one, as in ``index.d.ts``."""
_SPAN = re.compile(r"([0-9]{1,3})(h|d|w|m|y)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
_SCALES = {"k": 1_000, "m": 1_000_000}


class Term(NamedTuple):
    """Tokens that must follow each other; the facet's mark is not in them."""

    facet: str
    """The facet; empty for a text."""
    tokens: tuple[str, ...]
    is_prefix: bool = False
    """Whether the last token is only a prefix."""
    is_excluded: bool = False
    lower: tuple[str, ...] = ()
    """The tokens of a file's name in lower case, which also match; empty for other texts."""
    is_end: bool = False
    """Whether the tokens must be the last ones of a path."""

    def phrases(self) -> list[tuple[str, ...]]:
        """The alternatives of tokens that must follow each other, as stored in documents."""
        mark = MARKS[self.facet] if self.facet else ""
        end = (GAP,) if self.is_end else ()
        phrases = [(*_marked(mark, self.tokens), *end)]
        if self.lower:
            phrases.append((*_marked(mark, self.lower), *end))
            if not self.facet:  # only the paths of calls have their tokens in lower case too
                phrases.append(_marked(MARKS["file"], self.lower))
        return list(dict.fromkeys(phrases))

    @property
    def has_order(self) -> bool:
        """Whether tokens must follow each other."""
        return any(len(phrase) > 1 for phrase in self.phrases())


def _marked(mark: str, tokens: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([mark + token for token in tokens])


class SessionCondition(NamedTuple):
    """A text that a session's field must contain, or a number to compare with."""

    name: str
    value: str
    operator: str = ":"
    is_excluded: bool = False


@dataclass(slots=True)
class SearchQuery:
    """A parsed query. All conditions must hold."""

    groups: list[list[Term]] = field(default_factory=lambda: [[]])
    """The terms for each step that a session must have; usually one step."""
    conditions: list[SessionCondition] = field(default_factory=list)
    since: datetime | None = None
    until: datetime | None = None
    with_takes: bool = False
    parts: list[str] = field(default_factory=list)
    """Each group as a query of its own, with the times and takes of the whole query."""

    @property
    def terms(self) -> list[Term]:
        return [term for group in self.groups for term in group]

    @property
    def texts(self) -> list[Term]:
        """The terms that snippets show."""
        return [term for term in self.terms if not term.facet and not term.is_excluded]


class QueryWord(NamedTuple):
    """A part of a query as it is written."""

    facet: str
    text: str
    is_quoted: bool
    is_excluded: bool

    @property
    def is_and(self) -> bool:
        return self == QueryWord("", "AND", False, False)

    @property
    def written(self) -> str:
        name = f"{self.facet}:" if self.facet else ""
        return f"{'-' * self.is_excluded}{name}" + (f'"{self.text}"' if self.is_quoted else self.text)


def has_filters(text: str) -> bool:
    """Whether a text contains a filter such as ``tool:bash`` or ``cost>1``, not only words."""
    return _FILTER.search(text) is not None


def parse_query(text: str, now: datetime) -> SearchQuery:
    """Reads a query.

    Raises:
        Invalid: when it is too long, a quotation mark is not closed, or a comparison or a facet cannot be
            read.
    """
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise Invalid(f"The query has {len(text):,} characters. Use at most {MAX_CHARACTERS}.")
    query, written, shared = SearchQuery(), [list[str]()], list[str]()
    for count, word in enumerate(query_words(text, query)):
        if count >= MAX_TERMS:
            raise Invalid(f"The query has more than {MAX_TERMS} words and filters. Use fewer.")
        if not word.is_and:
            terms = len(query.groups[-1])
            _add(query, word, now)
            written[-1] += [word.written] if len(query.groups[-1]) > terms else []
            shared += [word.written] if word.facet in (*TIMES, TAKES) else []
        elif query.groups[-1]:
            query.groups.append([])
            written.append([])
    if len(query.groups) > 1 and not query.groups[-1]:
        query.groups.pop()
    query.parts = [" ".join([*words, *shared]) for words in written[: len(query.groups)]]
    if len(query.groups) > MAX_GROUPS:
        raise Invalid(
            f"The query has AND {len(query.groups) - 1} times. Use it at most {MAX_GROUPS - 1} times."
        )
    return query


def query_words(text: str, query: SearchQuery) -> Iterator[QueryWord]:
    """The words, phrases and facets of a query. Comparisons are added to it."""
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if match := _COMPARISON.match(text, at):
            query.conditions.append(_comparison(match))
            at = match.end()
            continue
        if match := _NO_COMPARISON.match(text, at):
            example = f"{match[1].lower()}{match[2]}100"
            raise Invalid(
                f"{match[0][:50]} needs a number to compare with. Write for example {example}, or put it "
                "into quotation marks to search for the text."
            )
        word_start = at
        is_excluded = text[at] == "-" and at + 1 < len(text) and not text[at + 1].isspace()
        at += is_excluded
        name, colon, _ = text[at : at + 12].partition(":")
        facet = name.lower() if colon and name.lower() in FACETS else ""
        at += len(name) + 1 if facet else 0
        if text[at : at + 1] == '"':
            end = text.find('"', at + 1)
            if end < 0:
                raise Invalid(f"The quotation mark at character {at + 1} is not closed. Add another one.")
            inside, at = text[at + 1 : end], end + 1
            star = text[at : at + 1] == "*"
            at += star
            yield QueryWord(facet, inside + "*" * star, True, is_excluded)
            continue
        end = at
        while end < len(text) and not text[end].isspace():
            end += 1
        value, at = text[at:end], end
        if facet and not value:
            raise Invalid(f"{text[word_start:end]} has no value. Write it directly after the colon.")
        yield QueryWord(facet, value, False, is_excluded)


def _comparison(match: "re.Match[str]") -> SessionCondition:
    name, operator, digits, scale = match.groups()
    try:
        number = float(digits.replace(",", "").replace("_", "")) * _SCALES.get((scale or "").lower(), 1)
    except ValueError:
        raise Invalid(f"{digits} is not a number. Write for example {name}>100.") from None
    return SessionCondition(name.lower(), repr(number), operator)


def asks_for_notes(word: QueryWord) -> bool:
    """Whether a word is ``has:note``, or the same with ``kind:``, which has the same values."""
    return word.facet in ("has", "kind") and word.text.lower() == NOTE


def _add(query: SearchQuery, word: QueryWord, now: datetime) -> None:
    if word.facet in NUMBERS:
        raise Invalid(f"Compare {word.facet} with a number, for example {word.facet}>100.")
    if word.facet in TIMES:
        moment = _moment(word.text, now)
        query.since, query.until = (moment, query.until) if word.facet == "since" else (query.since, moment)
    elif word.facet == TAKES:
        if word.text not in ("all", "live"):
            raise Invalid(f"takes:{word.text} is unknown. Use takes:all or takes:live.")
        query.with_takes = word.text == "all"
    elif asks_for_notes(word):
        query.conditions.append(SessionCondition(NOTE, "", is_excluded=word.is_excluded))
    elif word.facet in SESSION_FACETS:
        value = word.text.strip("*")
        query.conditions.append(SessionCondition(word.facet, value, is_excluded=word.is_excluded))
    else:
        group = query.groups[-1]
        group += [term for term in _terms(word) if term not in group]


def _terms(word: QueryWord) -> Iterator[Term]:
    if word.facet in ("status", "has", "kind"):
        yield _named(word)
        return
    is_prefix = word.text.endswith("*")
    tokens = tuple(tokens_of(word.text.rstrip("*")))
    if not tokens:
        if word.facet:
            raise Invalid(f"{word.facet}:{word.text} has no letters or digits to find.")
        if is_prefix:
            raise Invalid(f"{word.text} has no letters before the *. Write at least {MIN_PREFIX}.")
        return  # punctuation alone is in every text
    if len(tokens) > MAX_TOKENS_OF_TERM:
        raise Invalid(f"A phrase has {len(tokens)} words. Use at most {MAX_TOKENS_OF_TERM}.")
    if is_prefix and is_unspaced(tokens[-1]):
        is_prefix = False  # each character is a token of its own
    if is_prefix and len(tokens[-1]) < MIN_PREFIX:
        raise Invalid(
            f"{word.text} matches too many words. Write at least {MIN_PREFIX} letters before the *."
        )
    term = Term(word.facet, tokens, is_prefix, word.is_excluded)
    is_file_name = not is_prefix and FILE_NAME.fullmatch(word.text) is not None
    if word.facet == "file" or (is_file_name and not word.facet and not word.is_quoted):
        term = term._replace(lower=tuple(tokens_of(word.text.rstrip("*").lower())))
    if word.facet == "file":
        is_end = is_file_name and word.text.rpartition(".")[2].lower() not in _INNER_ENDINGS
        term = term._replace(is_end=is_end)
    yield term


def _named(word: QueryWord) -> Term:
    """A facet with a fixed list of values."""
    value = word.text.lower()
    value = {"failed": LIKELY_FAILED, "interrupted": "interrupted_by_human"}.get(value, value)
    values = (*STATUSES, LIKELY_FAILED) if word.facet == "status" else (*HAS, NOTE)
    if value not in values:
        raise Invalid(f"{word.facet}:{word.text} is unknown. Use one of {', '.join(values)}.")
    return Term("has" if word.facet == "kind" else word.facet, (value,), is_excluded=word.is_excluded)


def _moment(text: str, now: datetime) -> datetime:
    """``7d``, ``12h``, ``2026-11-01`` or a full time."""
    if match := _SPAN.fullmatch(text.lower()):
        return now - timedelta(hours=int(match[1]) * _HOURS[match[2]])
    if text.lower() in ("today", "yesterday"):
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return day if text.lower() == "today" else day - timedelta(days=1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text} is not a time. Write 7d, 12h, 2026-11-01 or 2026-11-01T09:00.") from None
    if not 1970 < moment.year < 3000:
        raise Invalid(f"{text} is not a valid time for a step. Use a year from 1971 to 2999.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
