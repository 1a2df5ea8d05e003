"""What a model says while it says it: one frozen value per piece, told apart by ``kind``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from historyapp.core.entries import StoredModel
from historyapp.core.text import Text
from historyapp.core.usage import Usage

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "paused", "other"]


class Started(StoredModel):
    """The provider has begun to answer, under these names."""

    kind: Literal["started"] = "started"
    provider: Text
    model: Text
    id: Text


class TextDelta(StoredModel):
    """The next piece of the answer; a refusal in words is one too."""

    kind: Literal["text"] = "text"
    text: Text


class ThoughtDelta(StoredModel):
    """The next piece of reasoning, or a finished block of it."""

    kind: Literal["thought"] = "thought"
    text: Text = ""
    block: dict[Text, Any] | None = None
    """The whole opaque block, signature or encrypted content included, as it must be sent back."""


class ToolCallDelta(StoredModel):
    """The next piece of one call. Each call begins with its ``id`` and ``name``."""

    kind: Literal["tool_call"] = "tool_call"
    index: int = Field(ge=0)
    """Which call of the answer: 0, 1, 2, …"""
    id: Text | None = None
    name: Text | None = None
    arguments: Text = ""


class UsageDelta(StoredModel):
    """Tokens so far; the last one is final."""

    kind: Literal["usage"] = "usage"
    usage: Usage
    raw: dict[Text, Any]
    """As the provider reported it."""


class Finished(StoredModel):
    """The answer is complete."""

    kind: Literal["finished"] = "finished"
    reason: FinishReason
    provider_reason: Text
    """In the provider's own word."""
    message: dict[Text, Any]
    """The whole answer as the provider would have given it unstreamed."""


class Silent(StoredModel):
    """Nothing has come for some seconds. Says nothing about the answer: it lets the call be cancelled."""

    kind: Literal["silent"] = "silent"


class Restarted(StoredModel):
    """The stream broke and the call is made anew: drop every delta before this one."""

    kind: Literal["restarted"] = "restarted"
    attempt: int = Field(ge=2)
    reason: Text


ModelOutputDelta = Annotated[
    Started | TextDelta | ThoughtDelta | ToolCallDelta | UsageDelta | Finished | Silent | Restarted,
    Field(discriminator="kind"),
]
