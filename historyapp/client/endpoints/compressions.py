"""Compressions, which summarise steps in the background; estimates and comparisons."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages, path_of, post
from historyapp.wire.compressions import (
    ComparisonOut,
    EstimateOut,
    RunItem,
    RunOut,
    RunPage,
    StartedOut,
    StrategyRowOut,
    StrategyRowsOut,
)


class ComparisonSide(TypedDict, total=False):
    """One side of a comparison. Omitted fields use the session's settings."""

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
) -> ApiCall[StartedOut]:
    """Compresses steps in the background, or joins the active run.

    Args:
        strategy: None: the session's setting.
        from_step: negative numbers count from the end. Without either bound: all steps except the newest
            ones.
        model: ``provider:model``, or ``local``; None: the session's setting.
        options: the strategy's options.
        again: include steps that already have a summary of this strategy.

    Raises:
        Invalid: for an unknown strategy, option or model, and for steps that do not exist.
    """
    body = {
        "strategy": strategy,
        "from_step": from_step,
        "to_step": to_step,
        "model": model,
        "options": options,
        "again": again,
    }
    return post(path_of("sessions", session_id, "compressions"), StartedOut, body, key=idempotency_key)


def compressions(
    session_id: Id, *, trial: bool = False, limit: int | None = None, as_of: int | None = None
) -> Pages[RunItem]:
    """Runs, newest first.

    Args:
        trial: include the runs of comparisons.
    """
    path = path_of("sessions", session_id, "compressions")
    return pages(path, RunPage, trial=True if trial else None, limit=limit, as_of=as_of)


def compression(session_id: Id, run_id: Id, *, as_of: int | None = None) -> ApiCall[RunOut]:
    """A run's progress, and the items that failed."""
    return get(path_of("sessions", session_id, "compressions", run_id), RunOut, as_of=as_of)


def cancel_compression(session_id: Id, run_id: Id) -> ApiCall[RunOut]:
    """Cancels a run. Running model calls finish, and their summaries are kept. Needs the scope ``admin``.

    Raises:
        Conflict: when the run has already ended.
    """
    path = path_of("sessions", session_id, "compressions", run_id)
    return ApiCall("DELETE", path, RunOut.model_validate)


def retry_compression(session_id: Id, run_id: Id) -> ApiCall[RunOut]:
    """Retries the failed items, or resumes a cancelled run.

    Raises:
        Conflict: when there is nothing to retry, or another run is active.
    """
    return post(path_of("sessions", session_id, "compressions", run_id, "retries"), RunOut, {})


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
) -> ApiCall[EstimateOut]:
    """The maximum tokens and cost of :meth:`compress`. Nothing is started."""
    query = {
        "strategy": strategy,
        "from_step": from_step,
        "to_step": to_step,
        "model": model,
        "options": json.dumps(dict(options)) if options else None,
        "again": True if again else None,
        "as_of": as_of,
    }
    return get(path_of("sessions", session_id, "compressions", "estimate"), EstimateOut, **query)


def compare(
    session_id: Id, from_step: int, to_step: int, sides: Sequence[ComparisonSide]
) -> ApiCall[ComparisonOut]:
    """Starts a comparison: two strategies summarise the same steps. Contexts do not use these summaries.

    Args:
        sides: exactly two.
    """
    body = drop_nulls({"from_step": from_step, "to_step": to_step, "sides": [dict(side) for side in sides]})
    return post(path_of("sessions", session_id, "comparisons"), ComparisonOut, body)


def comparison(session_id: Id, comparison_id: Id, *, as_of: int | None = None) -> ApiCall[ComparisonOut]:
    """A comparison's progress, with both sides' summaries and the names that later steps needed."""
    return get(path_of("sessions", session_id, "comparisons", comparison_id), ComparisonOut, as_of=as_of)


def comparison_rows(
    session_id: Id, comparison_id: Id, *, limit: int | None = None, as_of: int | None = None
) -> Pages[StrategyRowOut]:
    """The original steps and each side's summaries.

    Rows are aligned where summaries of both sides begin and end.
    """
    path = path_of("sessions", session_id, "comparisons", comparison_id, "rows")
    return pages(path, StrategyRowsOut, limit=limit, as_of=as_of)
