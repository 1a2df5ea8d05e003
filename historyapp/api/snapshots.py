"""Reads snapshots of served contexts, rebuilds their requests from the log, and compares two snapshots."""

from typing import Annotated, Any
from uuid import UUID

from django.http.response import HttpResponseBase
from ninja import Query, Router

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.cursors import PageQuery, cut_page, decode_cursor
from historyapp.api.fields import UUID_SCHEMA, AsOf, SessionId, id_of, money
from historyapp.api.responses import fill, json_value, response_or_304
from historyapp.core.manifest import Manifest
from historyapp.models import Snapshot
from historyapp.services.prices import price_list
from historyapp.services.snapshots import diff_snapshots, find_snapshot, rebuild_request
from historyapp.wire.contexts import SegmentOut
from historyapp.wire.snapshots import (
    CacheEffectOut,
    PrefixDiffOut,
    RebuiltRequestOut,
    SegmentChangeOut,
    SegmentDiffOut,
    SnapshotDiffOut,
    SnapshotItem,
    SnapshotOut,
    SnapshotPage,
    SnapshotTokens,
)

router = Router(tags=["snapshots"])

_LIST = "snapshots"
SnapshotId = Annotated[UUID, id_of("snapshot"), UUID_SCHEMA]
_SCREEN = "The context had a live screen, which is never stored. The request and both hashes leave it out."


@router.get("/sessions/{session_id}/snapshots", response=SnapshotPage, summary="List snapshots")
def list_snapshots(request: ApiRequest, session_id: SessionId, filter: Query[PageQuery]) -> HttpResponseBase:
    """The contexts that were served, newest first."""
    session = find_session(request, session_id)

    def make_content() -> SnapshotPage:
        session.lineage(filter.as_of)  # refuses a position beyond the head
        last_id = decode_cursor(_LIST, filter.cursor, UUID)[0] if filter.cursor is not None else None
        snapshots = Snapshot.objects.page(session, filter.limit + 1, before=last_id, as_of=filter.as_of)
        page, cursor = cut_page(_LIST, snapshots, filter.limit, lambda row: (row.pk,))
        return SnapshotPage(items=[_snapshot_item(snapshot) for snapshot in page], next=cursor)

    return response_or_304(request, session, make_content)


@router.get("/sessions/{session_id}/snapshots/{snapshot_id}", response=SnapshotOut, summary="Read a snapshot")
def read_snapshot(
    request: ApiRequest, session_id: SessionId, snapshot_id: SnapshotId, as_of: AsOf = None
) -> HttpResponseBase:
    """Includes the manifest: the parts of the context with their form and tokens, and the parts left out."""
    session = find_session(request, session_id)

    def make_content() -> dict[str, Any]:
        snapshot = find_snapshot(session, snapshot_id, as_of)
        # These bodies are stored as JSON values and may be large, so they are not made models.
        manifest = Manifest.model_validate(snapshot.manifest).model_dump()
        bodies = {"settings": snapshot.settings, "tools": snapshot.tools, "manifest": manifest}
        return {**json_value(_snapshot_item(snapshot)), **bodies}

    return response_or_304(request, session, make_content)


@router.get(
    "/sessions/{session_id}/snapshots/{snapshot_id}/request",
    response=RebuiltRequestOut,
    summary="Rebuild a snapshot's request",
)
def read_snapshot_request(
    request: ApiRequest, session_id: SessionId, snapshot_id: SnapshotId, as_of: AsOf = None
) -> HttpResponseBase:
    """Rebuilds the request from the log as of the snapshot's position, and compares the hash of its bytes."""
    session = find_session(request, session_id)

    def make_content() -> RebuiltRequestOut:
        snapshot = find_snapshot(session, snapshot_id, as_of)
        rebuilt = rebuild_request(session, snapshot)
        note = _SCREEN if snapshot.screen_tokens else None
        return fill(RebuiltRequestOut, rebuilt, served_sha256=snapshot.sha256, note=note)

    return response_or_304(request, session, make_content)


@router.get(
    "/sessions/{session_id}/snapshots/{snapshot_id}/diff",
    response=SnapshotDiffOut,
    summary="Compare two snapshots",
)
def read_snapshot_diff(
    request: ApiRequest,
    session_id: SessionId,
    snapshot_id: SnapshotId,
    other: Annotated[SnapshotId, Query(alias="with", description="The id of the other snapshot.")],
    as_of: AsOf = None,
) -> HttpResponseBase:
    """Compares their segments, the bytes that both share, and the effect on a provider's prompt cache."""
    session = find_session(request, session_id)

    def make_content() -> SnapshotDiffOut:
        snapshots = (find_snapshot(session, id, as_of) for id in (snapshot_id, other))
        diff = diff_snapshots(session, *snapshots)
        segments, cache = diff.segments, diff.cache
        pairs = [(fill(SegmentOut, pair.before), fill(SegmentOut, pair.after)) for pair in segments.changed]
        reusable, saved = cache.reusable, money(cache.saved)
        return SnapshotDiffOut(
            earlier=diff.earlier.pk,
            later=diff.later.pk,
            segments=SegmentDiffOut(
                added=[fill(SegmentOut, segment) for segment in segments.added],
                removed=[fill(SegmentOut, segment) for segment in segments.removed],
                changed=[SegmentChangeOut(before=before, after=after) for before, after in pairs],
            ),
            prefix=fill(PrefixDiffOut, diff.prefix, share=round(diff.prefix.share, 4)),
            cache=CacheEffectOut(reusable_tokens=reusable, saved=saved, prices_as_of=price_list().as_of),
        )

    return response_or_304(request, session, make_content)


def _snapshot_item(snapshot: Snapshot) -> SnapshotItem:
    live_screen, tokens = snapshot.screen_tokens > 0, fill(SnapshotTokens, snapshot)
    return fill(SnapshotItem, snapshot, live_screen=live_screen, tokens=tokens)
