"""For any text: chunks keep their limit and lose nothing, and condensing ends after few model calls."""

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.chunking import (
    MAX_CALLS,
    OVERLAP,
    Chunk,
    Segmentation,
    end_within,
    split,
    summarise_long,
)
from historyapp.core.language import load_language
from historyapp.core.tokens import count_tokens
from tests.examples import examples, thorough

READING = Segmentation(lambda text: load_language("en_core_web_sm")[0].sentences(text))
_WORDS = ["It failed. ", "word ", "x" * 40, "'" * 30, "你好。世界", "🦄🦄", "é́", "Fin!\n\n"]
UNITS = st.sampled_from([*_WORDS, "\ud800\x00", "\n", " " * 30, "9" * 20])
TEXTS = st.lists(st.tuples(UNITS, st.integers(1, 30)), max_size=8).map(
    lambda units: "".join(unit * times for unit, times in units)
)
PROSE = "".join(f"This is sentence {n} of a report on file_{n}.py. " for n in range(2_000))


def check(text: str, limit: int, chunks: list[Chunk]) -> None:
    """Chunks are parts of the text, cover it, advance, and keep the limit unless they are one character."""
    covered = 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.start <= covered < chunk.end
        assert count_tokens(chunk.text) <= limit or len(chunk.text) == 1
        covered = chunk.end
    assert covered == len(text)
    for before, after in pairwise(chunks):
        assert after.start > before.start
        assert count_tokens(text[after.start : before.end]) <= min(OVERLAP, limit)


@settings(max_examples=examples(200))
@given(TEXTS, st.integers(1, 60))
def test_chunks_cover_the_text_within_the_limit(text: str, limit: int) -> None:
    check(text, limit, list(split(text, limit, READING)))


def test_an_empty_text_gives_no_chunks() -> None:
    assert list(split("", 10, READING)) == []


def test_chunks_end_with_sentences_and_are_nearly_equal() -> None:
    chunks = list(split(PROSE, 4_000, READING))
    check(PROSE, 4_000, chunks)
    assert all(chunk.text.rstrip().endswith(".py.") for chunk in chunks)
    sizes = [count_tokens(chunk.text) for chunk in chunks]
    assert min(sizes) > 0.85 * max(sizes)
    assert len(chunks) <= count_tokens(PROSE) // (4_000 - OVERLAP) + 2


def test_chunks_share_whole_sentences_of_at_most_200_tokens() -> None:
    for before, after in pairwise(split(PROSE, 4_000, READING)):
        shared = PROSE[after.start : before.end]
        assert 100 < count_tokens(shared) <= 200
        assert shared.lstrip().startswith("This is sentence")


def test_a_log_is_cut_at_line_ends() -> None:
    log = "".join(f"{n:06} GET /index -> 200\n" for n in range(3_000))
    assert all(chunk.text.endswith("\n") for chunk in split(log, 2_000, READING))


@pytest.mark.parametrize("unit", ["x", "你好世界", *map(thorough, ("ab ", "🦄", "9", " ", "'", "\ud800"))])
def test_five_megabytes_in_one_line_take_seconds(unit: str) -> None:
    text = (unit * 5_000_000)[: 5_000_000 // len(unit[0].encode(errors="surrogatepass"))]
    started = process_time()
    chunks = list(split(text, 100_000, READING))
    assert process_time() - started < 20
    check(text, 100_000, chunks)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_chunking_ends_with_the_smallest_limits_too(limit: int) -> None:
    text = "A line. 你好🦄 and more\n" * 40
    check(text, limit, list(split(text, limit, READING)))


@given(TEXTS, st.integers(0, 40), st.integers(1, 50))
def test_reach_is_at_least_a_character_and_within_its_tokens(text: str, start: int, tokens: int) -> None:
    end = end_within(text, start, tokens)
    if start < len(text):
        assert start < end <= len(text)
        assert end == start + 1 or count_tokens(text[start:end]) <= tokens


class Summariser:
    """Summarises each chunk in a fixed way and keeps the chunks."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.chunks: list[str] = []

    def __call__(self, chunk: str) -> str:
        self.chunks.append(chunk)
        return chunk[: max(1, int(len(chunk) * self.share))]


def cut(text: str, room: int) -> str:
    return text[:room]


def test_a_text_that_fits_is_unchanged() -> None:
    model = Summariser(0.1)
    assert summarise_long("short", 10, model, cut, READING) == "short"
    assert model.chunks == []


def test_a_long_text_is_summarised_chunk_by_chunk_and_combined() -> None:
    model = Summariser(0.05)
    summary = summarise_long(PROSE, 5_000, model, cut, READING)
    assert summary == "\n\n".join(model(chunk) for chunk in list(model.chunks))
    assert count_tokens(summary) <= 5_000


@pytest.mark.parametrize("share", [0.0, 0.7, 3.0, *map(thorough, (0.3, 1.0))])
@pytest.mark.parametrize("limit", [1, 7, 300, 20_000])
def test_condensing_ends_within_its_calls_for_any_responses(share: float, limit: int) -> None:
    model = Summariser(share)
    summary = summarise_long(PROSE, limit, model, cut, READING)
    assert len(model.chunks) <= MAX_CALLS
    assert all(count_tokens(chunk) <= limit or len(chunk) == 1 for chunk in model.chunks)
    assert count_tokens(summary) <= limit or len(summary) == 1


@given(TEXTS, st.integers(1, 40), st.floats(0, 2))
def test_condensing_any_text_ends_within_its_calls(text: str, limit: int, share: float) -> None:
    model = Summariser(share)
    summary = summarise_long(text, limit, model, cut, READING)
    assert len(model.chunks) <= MAX_CALLS
    assert count_tokens(summary) <= limit or len(summary) == 1


def test_two_million_characters_are_condensed_in_seconds() -> None:
    text = "Das ist 🦄 ein Satz。" * 130_000
    model = Summariser(0.01)
    started = process_time()
    summary = summarise_long(text, 2_000, model, cut, READING)
    assert process_time() - started < 20
    assert len(model.chunks) <= MAX_CALLS
    assert count_tokens(summary) <= 2_000
