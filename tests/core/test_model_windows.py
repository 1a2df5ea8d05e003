"""The table of the windows of models."""

from typing import get_args

import pytest
from anthropic.types.model import Model as ClaudeModel
from openai.types.shared.all_models import AllModels

from historyapp.core.settings import UNKNOWN_WINDOW, known_window, window_of

UNKNOWN = (
    "gpt-6-cyber", "gpt-6-rosalind", "gpt-6.2-astra-law", "gpt-5.6-cyber", "gpt-5-pro", "gpt-audio",
    "gpt-rosalind", "gpt-daybreak", "computer-use-preview",
)  # fmt: skip
"""Models whose windows no page of their providers names."""


def names(union: object) -> set[str]:
    """The texts of a union of literals."""
    if isinstance(union, str):
        return {union}
    return {name for part in get_args(union) for name in names(part)}


@pytest.mark.parametrize("union", [AllModels, ClaudeModel])
def test_each_model_that_the_sdks_name_has_a_window_or_is_known_to_be_unknown(union: object) -> None:
    named = names(union)
    assert len(named) > 20
    without = {name for name in named if known_window(name) is None}
    assert without == {name for name in named if name.startswith(UNKNOWN)}


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-4-6", 1_000_000),
        ("anthropic/claude-haiku-5-5", 1_000_000),
        ("claude-opus-4-5-20251101", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("anthropic/claude-opus-4.6", 1_000_000),
        ("claude-sonnet-4.5", 200_000),
        ("gpt-4.5-preview", 111_000),
        ("gpt-5.4-2026-03-05", 922_000),
        ("gpt-5.4-mini-2026-03-17", 272_000),
        ("gpt-5.3-codex", 272_000),
        ("gpt-4-turbo-2024-04-09", 123_000),
        ("gpt-4-0613", 8_000),
        ("deepseek-chat", UNKNOWN_WINDOW),
        ("gpt-6.2-astra-law", UNKNOWN_WINDOW),
    ],
)
def test_the_longest_prefix_of_a_models_name_says_how_large_its_window_is(model: str, window: int) -> None:
    assert window_of(model) == window


def test_a_window_that_is_smaller_than_a_billed_request_is_not_believed() -> None:
    assert known_window("claude-opus-4-5", billed=240_000) is None
    assert known_window("claude-opus-4-6", billed=240_000) == 1_000_000
