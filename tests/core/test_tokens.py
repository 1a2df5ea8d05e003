"""Counting tokens."""

from historyapp.core.tokens import count_tokens


def test_a_long_text_of_rare_characters_can_be_counted() -> None:
    """The tokenizer refuses more than 200,000 tokens at once; rare characters take several each."""
    assert count_tokens("\U0001d4d0" * 100_000) > 200_000
