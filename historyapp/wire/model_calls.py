"""The events of a model call, sent while the model responds."""

from typing import Any
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire.base import MONEY, ResponseModel
from historyapp.wire.episodes import ActionOut, ToolCallOut
from historyapp.wire.ledger import UsageOut


class DeltaOut(ResponseModel):
    """A piece of the response. ``restarted`` means: drop all earlier pieces."""

    kind: str
    """``started``, ``text``, ``thought``, ``tool_call``, ``usage``, ``finished`` or ``restarted``."""
    text: Text = ""
    """For ``text`` and ``thought``."""
    index: int | None = None
    """For ``tool_call``: its index among the tool calls of the response."""
    id: Text | None = None
    name: Text | None = None
    arguments: Text = ""
    """For ``tool_call``: the next piece of its JSON text."""


class OutputOut(ResponseModel):
    thoughts: Text | dict[Text, Any] | None
    text: Text
    tool_calls: list[ToolCallOut]
    use_tool: ActionOut | None


class RecordedResponseOut(ResponseModel):
    """The complete response, which is now in the log."""

    kind: str = "appended"
    """Distinguishes this event from deltas. The server does not send this field."""
    position: int
    number: int
    """The step's number in the live history."""
    head: int
    snapshot: UUID
    """The snapshot of the context that was sent."""
    provider: str
    model: str
    finish_reason: str
    latency: float
    """Seconds from the request to the end of the response."""
    usage: UsageOut | None
    money: float | str = Field(description=MONEY)
    prices_as_of: str = ""
    """The date of the price list."""
    output: OutputOut
