"""The parts of a streamed response: frozen values, tagged by ``kind``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from historyapp.core.entries import StoredModel
from historyapp.core.text import Text
from historyapp.core.usage import Usage

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "paused", "other"]


class StartedDelta(StoredModel):
    """The response has begun. Provider, model and id are as the provider names them."""

    kind: Literal["started"] = "started"
    provider: Text
    model: Text
    id: Text


class TextDelta(StoredModel):
    """The next part of the text, or of a refusal in words."""

    kind: Literal["text"] = "text"
    text: Text


class ThoughtDelta(StoredModel):
    """The next part of the reasoning, or a finished block of it."""

    kind: Literal["thought"] = "thought"
    text: Text = ""
    block: dict[Text, Any] | None = None
    """The whole opaque block, signature or encrypted content included, as it must be sent back."""


class ToolCallDelta(StoredModel):
    """The next part of a tool call. The first part has its ``id`` and ``name``."""

    kind: Literal["tool_call"] = "tool_call"
    index: int = Field(ge=0)
    """Of the tool call in the response: 0, 1, 2, …"""
    id: Text | None = None
    name: Text | None = None
    arguments: Text = ""


class UsageDelta(StoredModel):
    """Tokens so far; the last one is final."""

    kind: Literal["usage"] = "usage"
    usage: Usage
    raw: dict[Text, Any]
    """As the provider reported it."""


class FinishedDelta(StoredModel):
    """The response is complete."""

    kind: Literal["finished"] = "finished"
    reason: FinishReason
    provider_reason: Text
    """As the provider named it."""
    message: dict[Text, Any]
    """The whole response as the provider would have sent it unstreamed."""


class SilentDelta(StoredModel):
    """Nothing has come for some seconds. Lets the reader cancel the call; no part of the response."""

    kind: Literal["silent"] = "silent"


class RestartedDelta(StoredModel):
    """The stream broke and the call is retried: drop every delta before this one."""

    kind: Literal["restarted"] = "restarted"
    attempt: int = Field(ge=2)
    reason: Text


ModelOutputDelta = Annotated[
    StartedDelta
    | TextDelta
    | ThoughtDelta
    | ToolCallDelta
    | UsageDelta
    | FinishedDelta
    | SilentDelta
    | RestartedDelta,
    Field(discriminator="kind"),
]
