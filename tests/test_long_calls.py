"""No text makes a single call of C code take long or much memory: other threads cannot run during it."""

import re
import sys
import tracemalloc
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import islice, product
from typing import Any
from uuid import UUID

import pytest

from historyapp.core import content
from historyapp.core import identifiers as names_of_texts
from historyapp.core import text as texts
from historyapp.core.budget import RequestMeter
from historyapp.core.content import image_data
from historyapp.core.dates import UNDATED
from historyapp.core.formats.base import Leaf
from historyapp.core.formats.calls import legal_name
from historyapp.core.formats.plain import PLAIN
from historyapp.core.identifiers import identifier_places, identifiers, new_identifiers
from historyapp.core.json import (
    load_dumped,
    load_fields,
    parse_embedded,
    parse_lenient,
    parse_object,
    parse_strict,
)
from historyapp.core.policies import clipping, shown
from historyapp.core.policies.clipping import clip_input, clip_result
from historyapp.core.policies.shown import ShownTexts
from historyapp.core.request_tokens import count_request
from historyapp.core.search_documents import UnreadEntry, document_of
from historyapp.core.search_query import Term
from historyapp.core.search_snippets import snippet_of
from historyapp.core.search_tokens import MAX_TOKEN, compound_names, tokens_of
from historyapp.core.searchable import Passage
from historyapp.core.text import clean, fenced
from historyapp.core.windows import LogRow
from tests.examples import thorough

MARKS = "\u0344" * 2000 + "\u0f75" * 2000
"""Marks that Unicode puts in another order."""
SHORTER = 4
"""Texts are that many times shorter than in use, and so are the pieces in which they are read."""
LENGTH = 2_000_000 // SHORTER
"""Characters of the texts whose memory is measured."""
FEW, SOME = 10, 30
"""Bytes for each character of a text. A list of its words takes up to 60, a pattern with a group 120."""
ONE_RUN = "é" + "_" * LENGTH
NEW_LINES = "\n" * LENGTH
LIMITS = {
    texts: ["PIECE_LENGTH"],
    names_of_texts: ["PIECE_LENGTH"],
    shown: ["PIECE_LENGTH", "MAX_READ", "MAX_RUNS", "MAX_LINES"],
    clipping: ["MAX_LINES_KEPT"],
}
METER = RequestMeter()
LINES = "a_1\n" * (LENGTH // 4)


@pytest.fixture
def normalized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts whose marks are put in order, in characters."""
    lengths = []
    normalize = unicodedata.normalize

    def count(form: str, text: str) -> str:
        lengths.append(len(text))
        return normalize(form, text)  # type: ignore[arg-type]

    monkeypatch.setattr(unicodedata, "normalize", count)
    return lengths


@pytest.mark.parametrize("text", [MARKS, "a" + MARKS, "\uff9e" * 5000, "ﷺ" * 5000, f"see {MARKS}, {MARKS}x"])
def test_a_run_is_cut_before_its_marks_are_put_in_order(text: str, normalized: list[int]) -> None:
    tokens_of(text)
    list(compound_names(text))
    logged = UnreadEntry(1, "model_input", 0, UNDATED, 1, lambda: ({"content": text}, len(text)))
    document_of(UUID(int=1), UUID(int=2), [logged])
    snippet_of([Passage(1, 1, "input", text)], [Term("", ("ls",)), Term("", ("absent",))])
    assert normalized
    assert max(normalized) <= 3000


@pytest.mark.parametrize("word", ["Größe" * 200, "e\u0301" * 500, "بِ" * 500, "ﬁｘ" * 500])
def test_the_cut_changes_no_token_of_a_long_word(word: str) -> None:
    whole = [c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c)]
    assert tokens_of(word) == ["".join(whole).casefold()[:MAX_TOKEN]]


@pytest.mark.parametrize("query", ["cafe", "abc", "gross"])
def test_a_word_in_another_spelling_is_found_in_a_snippet(query: str) -> None:
    text = "x " * 300 + "im Café, ＡＢＣ und GROẞ" + " y" * 300
    [term] = [Term("", (token,)) for token in tokens_of(query)[:1]]
    snippet = snippet_of([Passage(1, 1, "input", text)], [term])
    assert snippet is not None
    assert [tokens_of(snippet.text[a:b]) for a, b in snippet.marks] == [list(term.tokens)]


def words() -> str:
    """Different words of five letters."""
    letters = product("0123456789abcdefghijklmnopqrstuvwxyz", repeat=5)
    return " ".join(map("".join, islice(letters, LENGTH // 6)))


def different_lines() -> str:
    return "\n".join(f"a{number:x}" for number in range(LENGTH // 6))


def asking(text: str) -> LogRow:
    return LogRow(1, "model_input", UNDATED, 1, {}, {"content": text})


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for a piece is then the same share of that for a text."""
    for module, names in LIMITS.items():
        for name in names:
            monkeypatch.setattr(module, name, vars(module)[name] // SHORTER)
    cached: Any = names_of_texts._short_name_in
    smaller = lru_cache(cached.cache_info().maxsize // SHORTER)(cached.__wrapped__)
    monkeypatch.setattr(names_of_texts, "_short_name_in", smaller)


@pytest.mark.parametrize(
    ("read", "text", "most"),
    [
        (lambda text: ShownTexts([text]).names(), ONE_RUN, FEW),
        (lambda text: ShownTexts([text]).names(), words(), SOME),
        thorough(lambda text: ShownTexts([text]).names(), words().replace(" ", "é "), SOME),
        (lambda text: ShownTexts([text]).contains_text("absent", ()), different_lines(), SOME),
        (identifiers, ONE_RUN, FEW),
        (identifiers, words(), FEW),
        (identifiers, LINES, FEW),
        (lambda text: list(identifier_places(text)), ONE_RUN, FEW),
        (lambda text: list(new_identifiers([text, text[1:]])), ONE_RUN, FEW),
        (lambda text: clip_result(text, 1000, 1, METER, size=len(text)), different_lines(), FEW),
        (lambda text: clip_result(text, 1000, 1, METER), f"x{NEW_LINES}y", FEW),
        (lambda text: clip_input(text, 1000, METER), f"x{NEW_LINES}y", FEW),
        (lambda text: image_data({"data": text}), "ab cd\n" * (LENGTH // 6), FEW),
        (lambda text: PLAIN.leaf_tokens([Leaf(text)], len, 1.0), LINES, FEW),
        (clean, "\ud800ab" * (LENGTH // 3), FEW),
        (legal_name, "!" * LENGTH, 1),
        (lambda text: count_request([asking(text)], {}, None), "ab " * LENGTH, FEW),
        (fenced, "`` " * (LENGTH // 3), FEW),
    ],
)
def test_a_text_of_many_words_is_read_in_pieces(
    read: Callable[[str], object], text: str, most: int, short_pieces: None
) -> None:
    tracemalloc.start()
    try:
        read(text)
        assert tracemalloc.get_traced_memory()[1] < most * len(text)
    finally:
        tracemalloc.stop()


class RecordedPattern:
    """A pattern that records how many characters each call may read."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.lengths = pattern, list[int]()

    def fullmatch(self, text: str, start: int = 0, end: int = 10**9) -> re.Match[str] | None:
        self.lengths.append(min(end, len(text)) - start)
        return self.pattern.fullmatch(text, start, end)

    def match(self, text: str, start: int) -> re.Match[str] | None:
        return self.pattern.match(text, start)

    def sub(self, by: str, text: str) -> str:
        self.lengths.append(len(text))
        return self.pattern.sub(by, text)


@pytest.mark.parametrize("end", ["", "=", "==", "===", "!", "a=a"])
def test_a_long_image_is_checked_in_pieces(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong character at the end of 31 MB stopped all other threads for a second."""
    recorded = RecordedPattern(content._BASE64)
    monkeypatch.setattr(content, "_BASE64", recorded)
    text = "A" * (3 * texts.PIECE_LENGTH) + end
    assert content.is_base64(text) == (end in ("", "=", "=="))
    assert max(recorded.lengths) == texts.PIECE_LENGTH


def test_colours_of_a_long_text_are_removed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RecordedPattern(texts._SEQUENCE)
    monkeypatch.setattr(texts, "_SEQUENCE", recorded)
    monkeypatch.setattr(texts, "PIECE_LENGTH", 40)
    for text in ("\x1b[31mred\x1b[0m, " * 30, "a\x1b[" * 60, ("\x1b[" + "1;" * 10 + "m") * 20):
        assert texts.without_colours(text) == recorded.pattern.sub("", text)
    assert max(recorded.lengths) < 40 + 23


@pytest.mark.parametrize(
    "read",
    [
        parse_strict,
        parse_embedded,
        parse_lenient,
        load_dumped,
        lambda text: load_dumped(text.replace("1,", r'"\ud800",', 1)),
        lambda text: parse_object(text.encode()),
        lambda text: load_fields(text, ("a",)),
        lambda text: load_fields(text.replace("1,", r'"\ud800",', 1), ("a",)),
    ],
)
def test_other_threads_can_run_between_two_numbers_of_json(read: Callable[[str], object]) -> None:
    """The parser of msgspec takes 10 µs for each such number: seconds for those of one request."""
    calls = list[str]()
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        read('{"a": [1,' + "1e308," * 99 + "2]}")
    finally:
        sys.setprofile(None)
    assert calls.count("call") >= 99
