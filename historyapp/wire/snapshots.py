"""Snapshots of contexts that were served, and the differences of two snapshots."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example
from historyapp.wire.contexts import ManifestOut, SegmentOut


class SnapshotTokens(ResponseModel):
    """Input tokens of a context."""

    estimated: int
    counted: int | None = Field(description="Tokens by the provider's count endpoint.")
    billed: int | None = Field(description="As reported by the model call that used the context.")
    factor: float


class SnapshotItem(ResponseModel):
    """A context that was served."""

    id: UUID
    position: int = Field(description="The position up to which the context shows the session.")
    created_at: datetime
    policy: str
    format: str
    model: str
    max_tokens: int | None
    live_screen: bool = Field(description="Whether the request had a live screen.")
    sha256: str = Field(description="SHA-256 of the request's canonical bytes, without the live screen.")
    tokens: SnapshotTokens
    output_position: int | None = Field(
        description="The position of the output that the request led to, or null."
    )


class SnapshotOut(SnapshotItem):
    model_config = with_example(
        {**examples.SNAPSHOT, "settings": {}, "tools": [], "manifest": examples.MANIFEST}
    )

    settings: dict[Text, Any]
    tools: list[dict[Text, Any]]
    manifest: ManifestOut


class SnapshotPage(Page[SnapshotItem]):
    model_config = with_example({"items": [examples.SNAPSHOT], "next": None})


class RebuiltRequestOut(ResponseModel):
    """A request rebuilt from the log, with the settings of the snapshot."""

    model_config = with_example({
        "request": examples.CONTEXT["request"], "sha256": examples.CONTEXT["sha256"],
        "served_sha256": examples.CONTEXT["sha256"], "matches": True, "note": None,
    })  # fmt: skip

    request: dict[Text, Any]
    sha256: str
    served_sha256: str
    matches: bool = Field(description="Whether the rebuilt request equals the served request, byte for byte.")
    note: str | None = Field(description="What the comparison leaves out, if anything.")


class SegmentChangeOut(ResponseModel):
    before: SegmentOut
    after: SegmentOut


class SegmentDiffOut(ResponseModel):
    added: list[SegmentOut]
    removed: list[SegmentOut]
    changed: list[SegmentChangeOut]


class PrefixDiffOut(ResponseModel):
    first_difference: int | None = Field(
        description="The first byte of the later request that differs; null if the requests are equal."
    )
    share: float = Field(
        description="The share of the later request's bytes that precede the first difference."
    )


class CacheEffectOut(ResponseModel):
    reusable_tokens: int = Field(description="Tokens of the later request that a prompt cache could serve.")
    saved: float | str = Field(
        description="US dollars saved compared with a request without a cache; negative if the cache costs "
        'more than it saves. `"unknown"` if the model has no known price.'
    )
    prices_as_of: str


class SnapshotDiffOut(ResponseModel):
    """The changes from the earlier to the later snapshot."""

    model_config = with_example({
        "earlier": examples.CONTEXT["snapshot"], "later": "0197c7e2-0c2d-7a10-8b11-0a1b2c3d4e60",
        "segments": {
            "added": [{"source": "step", "step": 1, "form": "full", "tokens": 31}],
            "removed": [], "changed": [],
        },
        "prefix": {"first_difference": 68, "share": 0.31},
        "cache": {"reusable_tokens": 0, "saved": 0.0, "prices_as_of": "2026-11-29"},
    })  # fmt: skip

    earlier: UUID
    later: UUID
    segments: SegmentDiffOut
    prefix: PrefixDiffOut
    cache: CacheEffectOut
