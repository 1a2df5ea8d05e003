"""Writes one summary by its strategy. Loads no Django: the writer process has none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from historyapp.core.language import chunking_note, load_language
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import Complete, Language, Material, Resources, SummaryDraft
from historyapp.core.strategies.digests import write_digest
from historyapp.core.tokens import count_tokens


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """The steps to summarise, and the options."""

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
    instruction: str = ""
    """See ``Resources``."""


class Written(NamedTuple):
    draft: SummaryDraft
    tokens: int
    """Of its text."""
    note: str = ""
    """That the texts for the model were cut without a spaCy model; empty if they were not."""


class _WatchedLanguage:
    """A language that tells whether it was asked for sentences."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self.split = False

    def sentences(self, text: str) -> list[str]:
        self.split = True
        return self._language.sentences(text)

    def names(self, text: str) -> list[str]:
        return self._language.names(text)


def write(request: WriteRequest, complete: Complete | None) -> Written:
    """The summary that the request asks for, written here. Raises what strategies raise."""
    strategy = STRATEGIES[request.strategy]
    language = _WatchedLanguage(load_language(request.language)[0])
    resources = Resources(
        language,
        complete,
        window=request.window,
        max_length=request.max_length,
        options=strategy.options.model_validate(request.options),
        instruction=request.instruction,
    )
    if isinstance(request.source, Material):
        draft = strategy.write(request.source, resources)
    else:
        draft = write_digest(request.source, resources)
    # Without a model, the run has a note in any case.
    note = chunking_note(request.language) if complete and language.split else ""
    return Written(draft, count_tokens(draft.text), note)
