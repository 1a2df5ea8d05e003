"""The account of a context: what is in it, in which form, at what cost, and what was left out and why."""

from typing import Any, Literal

from pydantic import Field

from historyapp.core.entries import Record

Role = Literal["system", "user", "assistant", "tool"]
Form = Literal["full", "clipped", "masked", "summarised"]


class Message(Record):
    """One provider-neutral message."""

    role: Role
    content: Any
    """Text, or a list of parts as in ``model_input``."""
    tool_calls: list[Any] | None = None
    """As in the raw message where there is one, else ``{id, name, arguments}``."""
    tool_call_id: str | None = None
    is_error: bool = False
    reasoning: list[Any] = Field(default_factory=list)
    """Opaque blocks that belong to this message, verbatim; sent only to the provider that made them."""
    provider: str | None = None
    """Who made ``reasoning``, where that is known; else its blocks tell by their shape."""
    segment: int | None = None
    """Which of the manifest's segments it belongs to."""


class Segment(Record):
    """One part of a context and where it comes from."""

    source: Literal["system", "notebook", "tools", "input", "step", "live_screen", "overhead"]
    step: int | None = None
    """The step's number, for ``step``; the first one where a summary covers several."""
    last_step: int | None = None
    position: int | None = None
    """The entry's position, for ``input``."""
    form: Form = "full"
    summary: str | None = None
    """The summary's id, for the form ``summarised``."""
    tokens: int


class LeftOut(Record):
    """A range of steps or an input that is not in the context."""

    first_step: int | None = None
    last_step: int | None = None
    position: int | None = None
    reason: str


class Manifest(Record):
    policy: str
    max_tokens: int | None
    """The budget; null: none."""
    tokens: int
    """What the segments cost together, by our own count."""
    segments: list[Segment] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """What the reader should know, for example that the newest steps alone exceed the budget."""


class Context(Record):
    """What the model is sent next."""

    system: str = ""
    notebook: str = ""
    messages: list[Message]
    """Any will do: formats pair calls with results and mend what a cut has torn."""
    live_screen: str = ""
    """Volatile: it rides behind the newest input or result of a request and is never stored."""
    stable: int = 0
    """How many of the first messages the next context is expected to begin with, unchanged."""
    manifest: Manifest
