"""The parts of a streamed response: frozen models with a ``kind``."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from historyapp.core.entries import StoredModel
from historyapp.core.json import is_larger
from historyapp.core.text import Text
from historyapp.core.usage import Usage

MAX_USAGE = 10_000
"""The maximum size of a usage object. Providers may repeat it in each event."""

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "paused", "other"]


class StartedDelta(StoredModel):
    """The start of the response. ``model`` and ``id`` are as the provider returned them."""

    kind: Literal["started"] = "started"
    provider: Text
    model: Text
    id: Text


class TextDelta(StoredModel):
    """The next part of the text or of a refusal."""

    kind: Literal["text"] = "text"
    text: Text


class ThoughtDelta(StoredModel):
    """The next part of the reasoning, or a finished block of reasoning."""

    kind: Literal["thought"] = "thought"
    text: Text = ""
    block: dict[Text, Any] | None = None
    """The complete block with its signature or encrypted content, unchanged. It must be sent back."""


class ToolCallDelta(StoredModel):
    """The next part of a tool call. The first part has its ``id`` and ``name``."""

    kind: Literal["tool_call"] = "tool_call"
    index: int = Field(ge=0)
    """The index of the tool call in the response: 0, 1, 2, …"""
    id: Text | None = None
    name: Text | None = None
    arguments: Text = ""


class UsageDelta(StoredModel):
    """The tokens so far. The last delta of this kind is final."""

    kind: Literal["usage"] = "usage"
    usage: Usage
    raw: dict[Text, Any]
    """The provider's usage object, unchanged."""

    @field_validator("raw")
    @classmethod
    def _limit_size(cls, raw: dict[str, Any]) -> dict[str, Any]:
        if is_larger(raw, MAX_USAGE):
            raise ValueError(f"The usage has more than {MAX_USAGE:,} characters.")
        return raw


class FinishedDelta(StoredModel):
    """The end of the response."""

    kind: Literal["finished"] = "finished"
    reason: FinishReason
    provider_reason: Text
    """The provider's name of the reason."""
    message: dict[Text, Any]
    """The whole response, as the provider would have sent it without streaming."""


class SilentDelta(StoredModel):
    """Sent after some seconds without data, so that the reader can cancel the model call. No content."""

    kind: Literal["silent"] = "silent"


class RestartedDelta(StoredModel):
    """The stream broke and the model call is retried. Drop every delta before this one."""

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
