"""Contexts: what the model is sent next, what it was sent, and what changed in between."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from historyapp.client.calls.making import Id, at, get, pages
from historyapp.client.context_answers import Context, RebuiltRequest, Snapshot, SnapshotDiff, SnapshotItem
from historyapp.client.description import Call, Pages


class Wish(TypedDict, total=False):
    """What is left out is as the session's settings and its model have it."""

    policy: str
    """How the context is chosen: ``budgeted``, ``episodic`` …"""
    format: str
    """The provider's shape: ``openai_chat``, ``openai_responses``, ``anthropic_messages``, ``plain``."""
    model: str
    """Whose tokens are counted, and whom a call calls."""
    max_tokens: int | None
    """Budget of the whole request in tokens; None: no limit."""
    tools: Sequence[Mapping[str, Any]]
    """Functions that the model may call, in any provider's shape."""
    live_screen: str
    """A volatile text that rides behind the newest input or result and is never stored."""


class ContextWish(Wish, total=False):
    as_of: int
    """Build it as the session stood at this position."""
    record: bool
    """False: no snapshot is kept."""
    count: bool
    """Have the model's provider count its tokens, too."""


def serve_context(session_id: Id, **wish: Unpack[ContextWish]) -> Call[Context]:
    """What the model is sent next; see :class:`historyapp.client.ContextWish`. A snapshot of it is kept.

    Raises:
        Invalid: when the budget is too small; ``smallest`` is one that works.
    """
    path = at("sessions", session_id, "contexts")
    return Call("POST", path, Context.model_validate, body=dict(wish))


def context(
    session_id: Id,
    *,
    policy: str | None = None,
    format: str | None = None,
    model: str | None = None,
    max_tokens: int | None = None,
    as_of: int | None = None,
) -> Call[Context]:
    """What a model would be sent next, or would have been sent then. Nothing is recorded.

    Args:
        max_tokens: None: as the session's settings say.
    """
    query = {"policy": policy, "format": format, "model": model, "max_tokens": max_tokens, "as_of": as_of}
    return get(at("sessions", session_id, "contexts"), Context, **query)


def snapshots(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[SnapshotItem]:
    """The contexts that were served, the newest first."""
    return pages(at("sessions", session_id, "snapshots"), SnapshotItem, limit=limit, as_of=as_of)


def snapshot(session_id: Id, snapshot_id: Id, *, as_of: int | None = None) -> Call[Snapshot]:
    """One of them, with its manifest."""
    return get(at("sessions", session_id, "snapshots", snapshot_id), Snapshot, as_of=as_of)


def snapshot_request(session_id: Id, snapshot_id: Id, *, as_of: int | None = None) -> Call[RebuiltRequest]:
    """What was sent, made again from the log, with the hash of its bytes compared."""
    return get(at("sessions", session_id, "snapshots", snapshot_id, "request"), RebuiltRequest, as_of=as_of)


def snapshot_diff(
    session_id: Id, snapshot_id: Id, other_id: Id, *, as_of: int | None = None
) -> Call[SnapshotDiff]:
    """What changed from the earlier of the two to the later one, and what a prompt cache makes of it."""
    query: dict[str, Any] = {"with": other_id, "as_of": as_of}
    return get(at("sessions", session_id, "snapshots", snapshot_id, "diff"), SnapshotDiff, **query)
