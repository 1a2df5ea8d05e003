"""What the server answers about contexts, typed."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from historyapp.client.answers import Answer
from historyapp.core.text import Text


class Message(Answer):
    """One message in no provider's format."""

    role: str
    content: Any
    """Text, or a list of parts."""
    tool_calls: list[Any] | None = None
    tool_call_id: Text | None = None
    is_error: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The message with the fields that the server sent."""
        return self.model_dump(exclude_unset=True)


class Segment(Answer):
    """One part of a context and where it comes from."""

    source: str
    tokens: int
    step: int | None = None
    last_step: int | None = None
    position: int | None = None
    form: str = "full"
    summary: str | None = None


class LeftOut(Answer):
    """Steps or an input that are not in the context, and why."""

    reason: Text
    first_step: int | None = None
    last_step: int | None = None
    position: int | None = None
    last_position: int | None = None


class Manifest(Answer):
    """The account of a context."""

    policy: str
    max_tokens: int | None
    """The budget; null: none."""
    tokens: int
    segments: list[Segment] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    notes: list[Text] = Field(default_factory=list)


class Messages(Answer):
    messages: list[Message]
    manifest: Manifest


class Tokens(Answer):
    """What a context costs as input."""

    estimated: int
    """By the server's own count, of the whole request."""
    counted: int | None
    """By the provider's count endpoint; null where it was not asked."""
    factor: float
    """The model's tokens for each of the server's, as far as known."""
    error: float | None
    """Mean error of estimates for this model, as a share of what was billed; null: none yet."""
    learned_from: int
    """Calls of this model whose usage has been reported."""


class Context(Answer):
    """What the model is sent next."""

    request: dict[Text, Any]
    """The part of the provider's request that holds the context, tools included: ``create(**request)``."""
    manifest: Manifest
    tokens: Tokens
    snapshot: UUID | None
    """Its id; null when none was recorded."""
    sha256: str
    """Of the request's canonical bytes, without the live screen."""


class Bill(Answer):
    """Input tokens, as far as each is known."""

    estimated: int
    counted: int | None
    billed: int | None
    factor: float


class SnapshotItem(Answer):
    """A context that was served."""

    id: UUID
    position: int
    """As of which it was built."""
    created_at: datetime
    policy: str
    format: str
    model: str
    max_tokens: int | None
    live_screen: bool
    """Whether it had one."""
    sha256: str
    tokens: Bill
    output_position: int | None
    """Of the output that answered it; null: none that is known."""


class Snapshot(SnapshotItem):
    settings: dict[Text, Any]
    tools: list[dict[Text, Any]]
    manifest: Manifest


class RebuiltRequest(Answer):
    """A request made again from the log, under the terms that it was served under."""

    request: dict[Text, Any]
    sha256: str
    served_sha256: str
    matches: bool
    """Whether it has the bytes that were served."""
    note: str | None
    """What is left out of the comparison, if anything is."""


class Change(Answer):
    before: Segment
    after: Segment


class SegmentDiff(Answer):
    added: list[Segment]
    removed: list[Segment]
    changed: list[Change]


class PrefixDiff(Answer):
    first_difference: int | None
    """The first byte of the later request that differs; null: none does."""
    share: float
    """Of the later request's bytes, how many stand before it."""


class CacheEffect(Answer):
    reusable_tokens: int
    saved: float | str
    """US dollars, negative where writing to the cache costs more; ``unknown`` where the price is."""
    prices_as_of: str


class SnapshotDiff(Answer):
    """What changed from the earlier of two snapshots to the later one."""

    earlier: UUID
    later: UUID
    segments: SegmentDiff
    prefix: PrefixDiff
    cache: CacheEffect
