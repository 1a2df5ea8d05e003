"""Compression: runs that make summaries in the background, estimates and comparisons."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from historyapp.client.calls.making import Id, at, get, given, pages, post
from historyapp.client.compression_answers import (
    Comparison,
    CompressionRun,
    Estimate,
    RunItem,
    StartedRun,
)
from historyapp.client.description import Call, Pages


class Side(TypedDict, total=False):
    """One side of a comparison. What is left out is as the session's settings have it."""

    strategy: str
    model: str
    options: Mapping[str, Any]


def compress(
    session_id: Id,
    *,
    strategy: str | None = None,
    from_step: int | None = None,
    to_step: int | None = None,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    again: bool = False,
    idempotency_key: str | None = None,
) -> Call[StartedRun]:
    """Has steps summarised in the background, or joins the run that is under way.

    Args:
        strategy: None: as the session's settings say; so too the model.
        from_step: without both bounds all steps but the newest, which stay in full; negative ones count from
            the end.
        model: ``provider:model``, or ``local``.
        options: of the strategy.
        again: also the steps that have a summary of this strategy.

    Raises:
        Invalid: for an unknown strategy, option or model, and for steps that are not there.
    """
    body = {
        "strategy": strategy,
        "from_step": from_step,
        "to_step": to_step,
        "model": model,
        "options": options,
        "again": again,
    }
    return post(at("sessions", session_id, "compressions"), StartedRun, body, key=idempotency_key)


def compressions(
    session_id: Id, *, trial: bool = False, limit: int | None = None, as_of: int | None = None
) -> Pages[RunItem]:
    """Runs, the newest first.

    Args:
        trial: the sides of comparisons too.
    """
    path = at("sessions", session_id, "compressions")
    return pages(path, RunItem, trial=True if trial else None, limit=limit, as_of=as_of)


def compression(session_id: Id, run_id: Id, *, as_of: int | None = None) -> Call[CompressionRun]:
    """How far a run is, and what failed."""
    return get(at("sessions", session_id, "compressions", run_id), CompressionRun, as_of=as_of)


def cancel_compression(session_id: Id, run_id: Id) -> Call[CompressionRun]:
    """Ends a run. What is under way is finished and kept. The key needs the scope ``admin``.

    Raises:
        Conflict: when it has ended already.
    """
    path = at("sessions", session_id, "compressions", run_id)
    return Call("DELETE", path, CompressionRun.model_validate)


def retry_compression(session_id: Id, run_id: Id) -> Call[CompressionRun]:
    """Takes up what failed, or what a cancelled run had left.

    Raises:
        Conflict: when nothing is left, or another run is under way.
    """
    return post(at("sessions", session_id, "compressions", run_id, "retries"), CompressionRun, {})


def estimate_compression(
    session_id: Id,
    *,
    strategy: str | None = None,
    from_step: int | None = None,
    to_step: int | None = None,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    again: bool = False,
    as_of: int | None = None,
) -> Call[Estimate]:
    """What :meth:`compress` would cost at most."""
    query = {
        "strategy": strategy,
        "from_step": from_step,
        "to_step": to_step,
        "model": model,
        "options": json.dumps(dict(options)) if options else None,
        "again": True if again else None,
        "as_of": as_of,
    }
    return get(at("sessions", session_id, "compressions", "estimate"), Estimate, **query)


def compare(session_id: Id, from_step: int, to_step: int, sides: Sequence[Side]) -> Call[Comparison]:
    """Has two strategies summarise the same steps. Nothing of it stands for the steps.

    Args:
        sides: two of them.
    """
    body = given({"from_step": from_step, "to_step": to_step, "sides": [dict(side) for side in sides]})
    return post(at("sessions", session_id, "comparisons"), Comparison, body)


def comparison(session_id: Id, comparison_id: Id, *, as_of: int | None = None) -> Call[Comparison]:
    """How far a comparison is, with both sides' texts."""
    return get(at("sessions", session_id, "comparisons", comparison_id), Comparison, as_of=as_of)
