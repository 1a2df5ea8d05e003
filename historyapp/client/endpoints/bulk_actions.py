"""Actions on many sessions, and exports of many sessions as one file."""

from collections.abc import Iterable
from typing import Any, Literal

from historyapp.client.api_call import ApiCall, Id, Stream, drop_nulls, get, path_of, post
from historyapp.wire.bulk_actions import BulkActionOut, BulkEstimateOut

BulkKind = Literal["add_tag", "remove_tag", "archive", "unarchive", "compress"]


def start_bulk_action(
    action: BulkKind,
    sessions: Iterable[Id],
    *,
    tag: str | None = None,
    strategy: str | None = None,
    model: str | None = None,
    max_cost: float | Literal["unknown"] | None = None,
) -> ApiCall[BulkActionOut]:
    """Starts an action on at most 500 sessions. :func:`bulk_action` returns its progress.

    Args:
        tag: the tag to add or remove.
        max_cost: required if compressions call a provider's model: the highest estimate in US dollars that
            you accept; ``unknown`` also accepts models without a known price.

    Raises:
        Conflict: when compressions would cost more than ``max_cost``.
    """
    body: dict[str, Any] = {"action": action, "sessions": _ids(sessions), "tag": tag}
    return post(
        "/bulk-actions", BulkActionOut, {**body, "strategy": strategy, "model": model, "max_cost": max_cost}
    )


def bulk_action(bulk_action_id: Id) -> ApiCall[BulkActionOut]:
    """The progress of a bulk action, and the outcome for each session."""
    return get(path_of("bulk-actions", bulk_action_id), BulkActionOut)


def cancel_bulk_action(bulk_action_id: Id) -> ApiCall[BulkActionOut]:
    """Stops the action, and cancels the compressions that it started.

    Raises:
        Conflict: when the action has ended.
    """
    return ApiCall("DELETE", path_of("bulk-actions", bulk_action_id), BulkActionOut.model_validate)


def estimate_bulk_compression(
    sessions: Iterable[Id], *, strategy: str | None = None, model: str | None = None
) -> ApiCall[BulkEstimateOut]:
    """The maximum tokens and cost of compressing the sessions. Nothing is started."""
    body = {"sessions": _ids(sessions), "strategy": strategy, "model": model}
    return post("/bulk-actions/estimate", BulkEstimateOut, body)


def export_many(sessions: Iterable[Id], *, format: str = "playhead_jsonl") -> Stream[bytes]:
    """A zip file in chunks as they arrive. It has a file for each session. In ``playhead_jsonl``, forks of
    the same session are one file."""
    body = drop_nulls({"sessions": _ids(sessions), "format": format})
    api_call = ApiCall("POST", "/exports", lambda _: None, body=body)
    return Stream(api_call, lambda: lambda chunk: () if chunk is None else (chunk,))


def _ids(sessions: Iterable[Id]) -> list[str]:
    return [str(id) for id in sessions]
