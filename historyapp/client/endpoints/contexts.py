"""Contexts for the next model call, snapshots of served contexts, and differences of two snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from historyapp.client.api_call import ApiCall, Id, Pages, get, pages, path_of
from historyapp.wire.contexts import ContextOut
from historyapp.wire.snapshots import (
    RebuiltRequestOut,
    SnapshotDiffOut,
    SnapshotItem,
    SnapshotOut,
    SnapshotPage,
)


class RequestOptions(TypedDict, total=False):
    """Omitted fields use the session's settings and model."""

    policy: str
    """How the context is chosen: ``budgeted``, ``episodic`` …"""
    format: str
    """The provider's shape: ``openai_chat``, ``openai_responses``, ``anthropic_messages``, ``plain``."""
    model: str
    """The model whose tokens are counted, or that is called."""
    max_tokens: int | None
    """Budget of the whole request in tokens; None: no limit."""
    tools: Sequence[Mapping[str, Any]]
    """Functions that the model may call, in any provider's shape."""
    live_screen: str
    """Text for this request only. It is added after the newest input or result, and never stored."""


class ContextOptions(RequestOptions, total=False):
    as_of: int
    """Build the context of the session as it was at this position."""
    record: bool
    """False: do not store a snapshot."""
    count: bool
    """Also let the model's provider count the tokens."""


def serve_context(session_id: Id, **options: Unpack[ContextOptions]) -> ApiCall[ContextOut]:
    """The context for the next model call; see :class:`historyapp.client.ContextOptions`. The server stores a
    snapshot of it.

    Raises:
        Invalid: when the budget is too small; ``smallest`` is a budget that works.
    """
    path = path_of("sessions", session_id, "contexts")
    return ApiCall("POST", path, ContextOut.model_validate, body=dict(options))


def context(
    session_id: Id,
    *,
    policy: str | None = None,
    format: str | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    as_of: int | None = None,
) -> ApiCall[ContextOut]:
    """The context for the next model call; with ``as_of``, the context at that position. Nothing is recorded.

    Args:
        max_tokens: None: the session's setting.
    """
    query = {"policy": policy, "format": format, "model": model, "max_tokens": max_tokens, "as_of": as_of}
    return get(path_of("sessions", session_id, "contexts"), ContextOut, **query)


def snapshots(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[SnapshotItem]:
    """The contexts that were served, newest first."""
    return pages(path_of("sessions", session_id, "snapshots"), SnapshotPage, limit=limit, as_of=as_of)


def snapshot(session_id: Id, snapshot_id: Id, *, as_of: int | None = None) -> ApiCall[SnapshotOut]:
    """One snapshot, with its manifest."""
    return get(path_of("sessions", session_id, "snapshots", snapshot_id), SnapshotOut, as_of=as_of)


def snapshot_request(
    session_id: Id, snapshot_id: Id, *, as_of: int | None = None
) -> ApiCall[RebuiltRequestOut]:
    """A snapshot's request, rebuilt from the log, and whether its bytes have the same hash."""
    return get(
        path_of("sessions", session_id, "snapshots", snapshot_id, "request"), RebuiltRequestOut, as_of=as_of
    )


def snapshot_diff(
    session_id: Id, snapshot_id: Id, other_id: Id, *, as_of: int | None = None
) -> ApiCall[SnapshotDiffOut]:
    """The changes from the earlier to the later snapshot, and their effect on a prompt cache."""
    query: dict[str, Any] = {"with": other_id, "as_of": as_of}
    return get(path_of("sessions", session_id, "snapshots", snapshot_id, "diff"), SnapshotDiffOut, **query)
