"""Writes one summary by its strategy. Loads no Django: the writer process has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from historyapp.core.language import load_language
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Complete, Material, Resources, SummaryDraft
from historyapp.core.strategies.digests import write_digest
from historyapp.core.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What to summarise, and how."""

    strategy: str
    source: Material | list[str]
    """Steps; for a digest the texts of its summaries, oldest first."""
    language: str
    """Name of a spaCy model."""
    window: int
    """Most tokens of one prompt."""
    max_length: int
    """Longest summary, in characters."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the strategy."""


class Written(NamedTuple):
    draft: SummaryDraft
    tokens: int
    """Of its text."""


def write(request: WriteRequest, complete: Complete | None) -> Written:
    """The summary that the request asks for, written here. Raises what strategies raise."""
    strategy = STRATEGIES[request.strategy]
    resources = Resources(
        load_language(request.language)[0],
        complete,
        window=request.window,
        max_length=request.max_length,
        options=strategy.options.model_validate(request.options),
    )
    if isinstance(request.source, Material):
        draft = strategy.write(request.source, resources)
    else:
        draft = write_digest(request.source, resources)
    return Written(draft, count_tokens(draft.text))
