"""Counting tokens."""

import pytest

from historyapp.core.tokens import count_tokens, counter_for, encoding_for


def test_a_long_text_of_rare_characters_can_be_counted() -> None:
    """The tokenizer refuses more than 200,000 tokens at once; rare characters take several each."""
    assert count_tokens("\U0001d4d0" * 100_000) > 200_000


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("gpt-5-mini", "o200k_base"),
        ("openai:o3", "o200k_base"),
        ("openai/gpt-4o-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-opus-4-1", None),
        ("", None),
    ],
)
def test_a_model_has_the_encoding_that_openai_gave_it(model: str, encoding: str | None) -> None:
    assert encoding_for(model) == encoding


def test_each_encoding_counts_for_itself() -> None:
    text = "你好，世界"
    assert counter_for("gpt-4")(text) == count_tokens(text, "cl100k_base") > counter_for("gpt-4o")(text)
    assert counter_for("claude-opus-4-1")(text) == count_tokens(text)
