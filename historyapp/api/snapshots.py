"""What was served: snapshots, their requests rebuilt from the log, and what changed between two."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply_unless_known
from historyapp.api.auth import ApiRequest
from historyapp.api.context_schemas import CONTEXT_EXAMPLE, MANIFEST_EXAMPLE
from historyapp.api.cursors import Cursor, Limit, decode_id, encode_cursor
from historyapp.api.fields import UUID_SCHEMA, SessionId, id_of, iso
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Page, shown
from historyapp.core.manifest import Manifest, Segment
from historyapp.models import Session, Snapshot
from historyapp.services.prices import price_list
from historyapp.services.snapshots import SnapshotComparison, diff_snapshots, find_snapshot, rebuild_request
from historyapp.wire import examples

router = Router(tags=["snapshots"])

_LIST = "snapshots"
_SCREEN = "It had a live screen, which is never stored: the request and both hashes are without it."


SnapshotId = Annotated[UUID, id_of("snapshot"), UUID_SCHEMA]


class BillOut(BaseModel):
    """Input tokens, as far as each is known."""

    estimated: int
    counted: int | None = Field(description="By the provider's count endpoint.")
    billed: int | None = Field(description="As the call that it was made for reported them.")
    factor: float


class SnapshotItem(BaseModel):
    id: UUID
    position: int = Field(description="As of which it was built.")
    created_at: datetime
    policy: str
    format: str
    model: str
    max_tokens: int | None
    live_screen: bool = Field(description="Whether it had one.")
    sha256: str = Field(description="Of the request's canonical bytes, without the live screen.")
    tokens: BillOut
    output_position: int | None = Field(
        description="Of the output that answered it; null: none that is known."
    )


_ITEM = {
    "id": CONTEXT_EXAMPLE["snapshot"],
    "position": 1,
    "created_at": examples.LATER,
    "policy": "budgeted",
    "format": "openai_chat",
    "model": "gpt-5-mini",
    "max_tokens": 2048,
    "live_screen": False,
    "sha256": CONTEXT_EXAMPLE["sha256"],
    "tokens": {"estimated": 13, "counted": None, "billed": 13, "factor": 1.0},
    "output_position": 2,
}


class SnapshotOut(SnapshotItem):
    model_config = shown({**_ITEM, "settings": {}, "tools": [], "manifest": MANIFEST_EXAMPLE})

    settings: dict[str, Any]
    tools: list[dict[str, Any]]
    manifest: Manifest


class SnapshotPage(Page[SnapshotItem]):
    model_config = shown({"items": [_ITEM], "next": None})


class RequestOut(BaseModel):
    """A request made again from the log, under the terms that it was served under."""

    model_config = shown(
        {
            "request": CONTEXT_EXAMPLE["request"],
            "sha256": CONTEXT_EXAMPLE["sha256"],
            "served_sha256": CONTEXT_EXAMPLE["sha256"],
            "matches": True,
            "note": None,
        }
    )

    request: dict[str, Any]
    sha256: str
    served_sha256: str
    matches: bool = Field(description="Whether it has the bytes that were served.")
    note: str | None = Field(description="What is left out of the comparison, if anything is.")


class ChangeOut(BaseModel):
    before: Segment
    after: Segment


class SegmentsOut(BaseModel):
    added: list[Segment]
    removed: list[Segment]
    changed: list[ChangeOut]


class PrefixOut(BaseModel):
    first_difference: int | None = Field(
        description="The first byte of the later request that differs; null: none does."
    )
    share: float = Field(description="Of the later request's bytes, how many stand before it.")


class CacheOut(BaseModel):
    reusable_tokens: int = Field(description="What a provider's prompt cache holds of the later request.")
    saved: float | str = Field(
        description="US dollars, against a request without a cache; negative where writing to it costs more. "
        '`"unknown"` where the model\'s price is.'
    )
    prices_as_of: str


class DiffOut(BaseModel):
    """What changed from the earlier of two snapshots to the later one."""

    model_config = shown(
        {
            "earlier": CONTEXT_EXAMPLE["snapshot"],
            "later": "0197c7e2-0c2d-7a10-8b11-0a1b2c3d4e60",
            "segments": {
                "added": [{"source": "step", "step": 1, "form": "full", "tokens": 31}],
                "removed": [],
                "changed": [],
            },
            "prefix": {"first_difference": 68, "share": 0.31},
            "cache": {"reusable_tokens": 0, "saved": 0.0, "prices_as_of": "2025-11-30"},
        }
    )

    earlier: UUID
    later: UUID
    segments: SegmentsOut
    prefix: PrefixOut
    cache: CacheOut


class SnapshotFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.get("/sessions/{session_id}/snapshots", response=SnapshotPage, summary="List snapshots")
def list_snapshots(request: ApiRequest, session_id: SessionId, filter: Query[SnapshotFilter]) -> HttpResponse:
    """The contexts that were served, the newest first."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: SnapshotFilter) -> dict[str, Any]:
    session.lineage(filter.as_of)  # refuses a position beyond the head
    before = decode_id(_LIST, filter.cursor) if filter.cursor is not None else None
    found = Snapshot.objects.page(session, filter.limit + 1, before=before, as_of=filter.as_of)
    page = found[: filter.limit]
    cursor = encode_cursor(_LIST, str(page[-1].pk)) if len(found) > len(page) else None
    return {"items": [item_json(snapshot) for snapshot in page], "next": cursor}


@router.get("/sessions/{session_id}/snapshots/{snapshot_id}", response=SnapshotOut, summary="Read a snapshot")
def read_snapshot(
    request: ApiRequest, session_id: SessionId, snapshot_id: SnapshotId, as_of: AsOf = None
) -> HttpResponse:
    """With its manifest: what was in it, in which form, at what cost, and what was left out."""
    session = find_session(request, session_id)
    return reply_unless_known(
        request, session, lambda: snapshot_json(find_snapshot(session, snapshot_id, as_of))
    )


@router.get(
    "/sessions/{session_id}/snapshots/{snapshot_id}/request",
    response=RequestOut,
    summary="Rebuild a snapshot's request",
)
def read_snapshot_request(
    request: ApiRequest, session_id: SessionId, snapshot_id: SnapshotId, as_of: AsOf = None
) -> HttpResponse:
    """From the log as it stood then, with the hash of its bytes compared."""
    session = find_session(request, session_id)
    return reply_unless_known(
        request, session, lambda: _request(session, find_snapshot(session, snapshot_id, as_of))
    )


def _request(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    rebuilt = rebuild_request(session, snapshot)
    return {
        "request": rebuilt.request,
        "sha256": rebuilt.sha256,
        "served_sha256": snapshot.sha256,
        "matches": rebuilt.matches,
        "note": _SCREEN if snapshot.screen_tokens else None,
    }


@router.get(
    "/sessions/{session_id}/snapshots/{snapshot_id}/diff", response=DiffOut, summary="Compare two snapshots"
)
def read_snapshot_diff(
    request: ApiRequest,
    session_id: SessionId,
    snapshot_id: SnapshotId,
    other: Annotated[SnapshotId, Query(alias="with", description="The id of the other snapshot.")],
    as_of: AsOf = None,
) -> HttpResponse:
    """By segment, by their first bytes, and by what a provider's prompt cache makes of the later one."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _diff(session, (snapshot_id, other), as_of))


def _diff(session: Session, ids: tuple[UUID, UUID], as_of: int | None) -> dict[str, Any]:
    one, other = (find_snapshot(session, id, as_of) for id in ids)
    return diff_json(diff_snapshots(session, one, other))


def item_json(snapshot: Snapshot) -> dict[str, Any]:
    """The row as :class:`SnapshotItem`."""
    return {
        "id": str(snapshot.pk),
        "position": snapshot.position,
        "created_at": iso(snapshot.created_at),
        "policy": snapshot.policy,
        "format": snapshot.format,
        "model": snapshot.model,
        "max_tokens": snapshot.max_tokens,
        "live_screen": snapshot.screen_tokens > 0,
        "sha256": snapshot.sha256,
        "tokens": {
            "estimated": snapshot.estimated,
            "counted": snapshot.counted,
            "billed": snapshot.billed,
            "factor": snapshot.factor,
        },
        "output_position": snapshot.output_position,
    }


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """The row as :class:`SnapshotOut`."""
    return {
        **item_json(snapshot),
        "settings": snapshot.settings,
        "tools": snapshot.tools,
        "manifest": snapshot.account.model_dump(),
    }


def diff_json(diff: SnapshotComparison) -> dict[str, Any]:
    """The comparison as :class:`DiffOut`."""
    segments, cache = diff.segments, diff.cache
    return {
        "earlier": str(diff.earlier.pk),
        "later": str(diff.later.pk),
        "segments": {
            "added": [segment.model_dump() for segment in segments.added],
            "removed": [segment.model_dump() for segment in segments.removed],
            "changed": [
                {"before": change.before.model_dump(), "after": change.after.model_dump()}
                for change in segments.changed
            ],
        },
        "prefix": {"first_difference": diff.prefix.first_difference, "share": round(diff.prefix.share, 4)},
        "cache": {
            "reusable_tokens": cache.reusable,
            "saved": "unknown" if cache.saved is None else cache.saved / 1_000_000,
            "prices_as_of": price_list().as_of,
        },
    }
