"""The manifest of a context: its parts with their form and cost, and what was left out and why."""

from typing import Literal

from pydantic import Field

from historyapp.core.entries import StoredModel

Form = Literal["full", "clipped", "masked", "summarised"]


class Segment(StoredModel):
    """One part of a context and where it comes from."""

    source: Literal["system", "notebook", "tools", "input", "step", "live_screen", "overhead"]
    step: int | None = None
    """The step's number, for ``step``. The first number if a summary covers several steps."""
    last_step: int | None = None
    position: int | None = None
    """The entry's position, for ``input``."""
    form: Form = "full"
    summary: str | None = None
    """The summary's id, for the form ``summarised``."""
    tokens: int


class LeftOut(StoredModel):
    """A range of steps, or of inputs between them, that is not in the context."""

    first_step: int | None = None
    last_step: int | None = None
    position: int | None = None
    """The position of the input that is left out; the first one of a range."""
    last_position: int | None = None
    """The last position of a range. Inputs of the range that are segments are in the context."""
    reason: str


class ReasoningLeftOut(StoredModel):
    """Reasoning blocks that are not sent with the steps that they belong to."""

    first_step: int
    last_step: int
    blocks: int
    reason: str


class FullHistory(StoredModel):
    """The cost of sending all live entries, compared with the shortened context.

    Both are the cost of the input of one request, if a request follows each step and the unchanged beginning
    is in the provider's cache."""

    tokens: int
    """Tokens of all live entries."""
    micros: int
    """Millionths of a US dollar, like ``context_micros``."""
    context_micros: int
    break_even_tokens: int
    """The largest full history that costs no more than the context."""


class Manifest(StoredModel):
    policy: str
    max_tokens: int | None
    """The budget in tokens; null: no limit."""
    tokens: int
    """Tokens of all segments, by our own count."""
    segments: list[Segment] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    reasoning_left_out: list[ReasoningLeftOut] = Field(default_factory=list)
    """Reasoning of steps that are in the context as messages. All other steps are without reasoning."""
    notes: list[str] = Field(default_factory=list)
    """What the reader should know, for example that the newest steps alone exceed the budget."""
    full_history: FullHistory | None = None
    """Null: all of it is in the context, or the model's price is unknown."""
