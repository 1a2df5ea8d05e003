"""The interface of compression strategies. A strategy does no input or output."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from historyapp.core.entries import StoredModel
from historyapp.core.episodes import Episode
from historyapp.core.errors import PlayheadError
from historyapp.core.tokens import TokenCounter, count_tokens

NOT_REPEATED = "Write a summary by hand, or leave the steps as they are."
"""The end of errors that the same steps would cause again. Automatic runs do not repeat them."""
PAID = (
    "It was paid, or may be, so automatic compressions do not repeat it: retry it yourself, or choose "
    f"another model. {NOT_REPEATED}"
)
"""The end of errors of steps whose model calls were paid, or may be."""


class NotSummarised(PlayheadError):
    """The model returned no usable summary; ``detail`` says why in one sentence."""


@dataclass(frozen=True, slots=True)
class SummaryPrompt:
    """One request to a model."""

    instruction: str
    """Our own text: it contains nothing that agents or people wrote."""
    material: str
    """Texts of agents and people, marked as data (``quoting``)."""
    max_output_tokens: int
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema of the answer; null: plain text."""


Complete = Callable[[SummaryPrompt], str]
"""Sends a prompt to the run's model and returns its answer. Raises the errors of model calls."""


class Language(Protocol):
    """Sentences and names in a text, found by spaCy; see ``language``."""

    def sentences(self, text: str) -> list[str]:
        """The sentences in order. Joined, they are the text."""
        ...

    def names(self, text: str) -> list[str]:
        """Named entities, each once, in order; empty without a statistical model."""
        ...


@dataclass(frozen=True, slots=True)
class Material:
    """The content that one summary covers."""

    episodes: tuple[Episode, ...]
    """Finished steps, oldest first, without gaps. Their outputs lack ``raw_message`` and ``reasoning``."""
    inputs: tuple[str, ...] = ()
    """The inputs from people between or just before these steps, verbatim, oldest first."""
    task: str = ""
    """The session's first input, as background for the model; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Resources:
    """The language, model, limits and options that a strategy uses."""

    language: Language
    complete: Complete | None = None
    """Null: there is no model, so strategies write extracts."""
    window: int = 100_000
    """The maximum number of tokens of a prompt's instruction and material together."""
    max_length: int = 8000
    """The maximum length of a summary, in characters."""
    count: TokenCounter = count_tokens
    options: BaseModel = field(default_factory=lambda: NoOptions())
    instruction: str = ""
    """Replaces the strategy's default task for the model, if it ``takes_instruction``; empty: the default."""


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """A summary before it is stored."""

    text: str
    key_points: tuple[str, ...] = ()


class NoOptions(StoredModel):
    """The options of strategies that have none."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to make summaries."""

    name: str
    title: str
    """For people."""
    description: str
    """One sentence for people: what it makes and what it costs."""
    covers: Literal["step", "batch"]
    """Whether each step has its own summary, or ``compression_batch_size`` steps share one."""
    uses_model: bool
    write: Callable[[Material, Resources], SummaryDraft]
    """Raises :class:`NotSummarised`, and the errors of ``Resources.complete``."""
    options: type[BaseModel] = NoOptions
    takes_instruction: bool = False
    """Whether ``Resources.instruction`` replaces its default task."""
    instruction_tokens: int = 0
    """The tokens of one prompt without its material, for estimates."""
    answer_tokens: int = 0
    """The tokens of a typical answer, for estimates."""
