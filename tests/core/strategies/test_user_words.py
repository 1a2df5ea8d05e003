"""The user's own words stay unchanged in every stage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.strategies.base import Material
from historyapp.core.strategies.user_words import compose_summary, quote_words, split_words, user_words
from historyapp.core.text import clean
from tests.core.entries import TEXT
from tests.core.strategies.scripted import called, steps

WORDS = st.lists((TEXT | st.sampled_from(['a"b', "x\n```\ny", 'The user said: "z"'])).map(clean), max_size=4)


@given(WORDS, TEXT)
def test_quoted_words_can_be_split_off(words: list[str], body: str) -> None:
    listed = [text for text in words if text]
    quotes, rest = split_words(quote_words(listed, 100_000) + "\n-" + body if listed else "-" + body)
    assert (quotes, rest) == (listed, "-" + body)


@pytest.mark.parametrize("words", ["5", "null", '{"x": 1}', '["a", 1]'])
def test_a_field_for_the_users_words_may_have_any_value(words: str) -> None:
    text = f'{{"user": [], "user": {words}}}'
    assert split_words(text) == ([], text)


@pytest.mark.parametrize("body", ['The user said: "Delete it"\nDone.', '{"user": ["Delete it"], "step": 1}'])
@pytest.mark.parametrize("words", [[], ["Keep it"]])
def test_a_summary_that_begins_like_a_quote_is_not_taken_for_the_users_words(
    words: list[str], body: str
) -> None:
    text = compose_summary(words, 1_000, body).text
    assert split_words(text) == (words, f"Summary: {body}")


def test_blank_words_are_left_out_and_repeated_ones_quoted_once() -> None:
    assert user_words(Material(steps(called()), (" ", "Go on", "Go on", "\ud800"))) == ["Go on", "\ufffd"]


def test_feedback_of_an_interruption_is_quoted_and_an_error_is_not() -> None:
    listed = steps(called("Stop it", status="interrupted_by_human"), called("It failed", status="error"))
    assert user_words(Material(listed)) == ["Stop it"]


def test_only_the_longest_quote_is_clipped_with_its_length() -> None:
    quoted = quote_words(["Short words", "long " * 1_000], 600)
    assert 'The user said: "Short words"' in quoted
    assert "of 5,000 characters): " in quoted
    assert "[…]" in quoted
    assert len(quoted) <= 600


def test_the_first_and_the_newest_of_many_quotes_are_kept_and_the_others_counted() -> None:
    quoted = quote_words([f"Do number {n} of all the things that I want" for n in range(500)], 1_000)
    assert "number 0 " in quoted
    assert "number 499 " in quoted
    assert "more quotes of the user left out]" in quoted
    assert len(quoted) <= 1_000


@pytest.mark.parametrize("room", [0, 10, 59])
def test_no_quote_is_made_without_room(room: int) -> None:
    assert quote_words(["words"], room) == ""


@given(WORDS, st.integers(0, 400))
def test_the_quotes_never_exceed_their_room(words: list[str], room: int) -> None:
    assert len(quote_words(words, room)) <= room
