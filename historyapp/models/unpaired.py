"""Explains results that match no open tool call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from historyapp.core.entries import ModelOutput
from historyapp.core.lineage import Span
from historyapp.models.entries import Entry, in_spans
from historyapp.models.episodes import Episode
from historyapp.models.history import History
from historyapp.models.sql import live_entries

MAX_STEPS = 10
"""The maximum number of steps to search. Only an append with an unpaired result reads them."""
MAX_TOKENS = 200_000
"""The maximum number of tokens of their outputs. Reading longer ones takes too long for a transaction."""

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
    call_ids = list(_call_ids(history, rows))
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


def _call_ids(history: History, rows: Sequence[Episode]) -> Iterator[set[str | None]]:
    """The ids of each step's tool calls; empty for steps whose outputs are too long to read."""
    positions = [row.first_position for row in rows]
    spans = [Span(history.lineage.session_at(position) or "", position, position) for position in positions]
    tokens = (
        dict(in_spans(Entry.objects.order_by(), spans).values_list("position", "tokens")) if spans else {}
    )
    remaining = MAX_TOKENS
    for position in positions:
        remaining -= tokens[position]
        if remaining < 0:
            yield set()
            continue
        around = {"after": position - 1, "before": position + 1}
        (entry,) = live_entries(history.lineage, ("model_output",), **around, metadata=())
        assert isinstance(entry.body, ModelOutput)
        yield {tool_call.id for tool_call in entry.body.tool_calls}
