"""What every compression strategy takes and gives. The strategies themselves do no input or output."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from historyapp.core.episodes import Episode
from historyapp.core.errors import PlayheadError
from historyapp.core.tokens import TokenCounter, count_tokens


class NotSummarised(PlayheadError):
    """The model gave nothing that can stand for the steps; ``detail`` says in one sentence why."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a model."""

    instruction: str
    """What to do; our own words only."""
    material: str
    """What agents and people wrote, delimited as data (``quoting``)."""
    max_output_tokens: int
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema of the wanted answer; null: plain text."""


Ask = Callable[[Prompt], str]
"""Puts a question to the run's model and returns its answer. Raises what the model client raises."""


class Language(Protocol):
    """What spaCy finds in a text; see ``language``."""

    def sentences(self, text: str) -> list[str]:
        """The text in order and without loss: joined, the sentences are the text."""
        ...

    def names(self, text: str) -> list[str]:
        """Named entities, each once, in order; none without a statistical model."""
        ...


@dataclass(frozen=True, slots=True)
class Material:
    """What one summary is to stand for."""

    episodes: tuple[Episode, ...]
    """Finished steps, oldest first, without gaps."""
    inputs: tuple[str, ...] = ()
    """What people said to the agent between or just before these steps, verbatim, oldest first."""
    task: str = ""
    """The session's first input, for orientation; empty when there was none."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a strategy may use."""

    language: Language
    ask: Ask | None = None
    """Null: there is no model; strategies fall back to extraction."""
    window: int = 100_000
    """Tokens that instruction and material of one prompt may have together."""
    max_length: int = 8000
    """Longest summary, in characters."""
    count: TokenCounter = count_tokens
    options: BaseModel = field(default_factory=lambda: NoOptions())


@dataclass(frozen=True, slots=True)
class Written:
    """A summary's words."""

    text: str
    key_points: tuple[str, ...] = ()


class NoOptions(BaseModel):
    """Of strategies that have nothing to choose."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to make summaries."""

    name: str
    title: str
    """For people."""
    description: str
    """One sentence for people: what it gives and what it costs."""
    covers: Literal["step", "batch"]
    """Whether each step gets a summary of its own, or ``compression_batch_size`` steps share one."""
    asks_model: bool
    write: Callable[[Material, Means], Written]
    """Raises :class:`NotSummarised`, and what ``Means.ask`` raises."""
    options: type[BaseModel] = NoOptions
    instruction_tokens: int = 0
    """Of one prompt without its material, for estimates."""
    answer_tokens: int = 0
    """Of a usual answer, for estimates."""
