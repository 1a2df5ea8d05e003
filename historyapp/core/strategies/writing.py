"""Writes one summary with its strategy. It must not load Django, to keep the writer process small."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
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
    """The steps. For a digest: the texts of its summaries, oldest first."""
    language: str
    """The name of a spaCy model."""
    window: int
    """The maximum number of tokens of a prompt."""
    max_length: int
    """The maximum length of the summary, in characters."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the strategy."""
    instruction: str = ""
    """See :class:`~historyapp.core.strategies.base.Resources`."""


class WrittenSummary(NamedTuple):
    draft: SummaryDraft
    tokens: int
    """Tokens of its text."""
    note: str = ""
    """Says that texts for the model were cut without a spaCy model; empty if they were not."""


MAX_ANALYSED = 100_000
"""The characters of one summary's steps that a spaCy model reads if no model is called: about four seconds of
processor time. In later steps, no names are found and a text is one sentence."""
_MIN_ANALYSED = 200
"""A shorter text takes as long as one of this many characters."""


class _SummaryLanguage:
    """The language of one summary: it records whether a text was split, and reads a limited number of
    characters."""

    def __init__(self, language: Language, max_analysed: float) -> None:
        self._language = language
        self._left = max_analysed
        self.has_split = False

    def sentences(self, text: str) -> list[str]:
        self.has_split = True
        return self._language.sentences(text) if self._may_analyse(text) else [text]

    def names(self, text: str) -> list[str]:
        return self._language.names(text) if text and self._may_analyse(text) else []

    def _may_analyse(self, text: str) -> bool:
        size = max(len(text), _MIN_ANALYSED)
        if size > self._left:
            return False
        self._left -= size
        return True


def write(request: WriteRequest, complete: Complete | None) -> WrittenSummary:
    """Writes the summary in this process. Raises the errors of strategies."""
    strategy = STRATEGIES[request.strategy]
    max_analysed = inf if complete else MAX_ANALYSED
    language = _SummaryLanguage(load_language(request.language)[0], max_analysed)
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
    note = chunking_note(request.language) if complete and language.has_split else ""
    return WrittenSummary(draft, count_tokens(draft.text), note)
