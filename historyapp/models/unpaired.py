"""Explains results that match no open tool call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from historyapp.core.entries import ModelOutput
from historyapp.models.history import History
from historyapp.models.sql import live_entries

MAX_STEPS = 10
"""The maximum number of steps to search. Only an append with an unpaired result reads them."""

Reason = Literal["answered", "abandoned", "unknown", "no_open_call"]


class UnpairedResult(NamedTuple):
    position: int
    place: int
    """The index among the results of its entry."""
    tool_call_id: str | None


@dataclass(frozen=True, slots=True)
class UnpairedReason:
    """An unpaired result and the reason."""

    position: int
    index: int
    """The index among the results of its entry."""
    tool_call_id: str | None
    reason: Reason
    step: int | None
    """The newest step with a tool call with this id, if it is one of the newest 10."""


def explain_unpaired(history: History, results: Sequence[UnpairedResult]) -> list[UnpairedReason]:
    """Why each result matches no open tool call. The entries of the same append have been stored."""
    rows = history.rows(history.steps - MAX_STEPS + 1, history.steps)[::-1]
    call_ids: list[set[str | None]] = []
    for row in rows:
        position = row.first_position
        (entry,) = live_entries(history.lineage, ("model_output",), after=position - 1, before=position + 1)
        assert isinstance(entry.body, ModelOutput)
        call_ids.append({tool_call.id for tool_call in entry.body.tool_calls})
    reasons: list[UnpairedReason] = []
    for position, index, id in results:
        reason: Reason = "no_open_call" if id is None else "unknown"
        step = None
        for row, ids in zip(rows, call_ids, strict=True):
            if row.first_position < position and id in ids:
                reason = "abandoned" if row.status == "abandoned" else "answered"
                step = row.number
                break
        reasons.append(UnpairedReason(position, index, id, reason, step))
    return reasons
