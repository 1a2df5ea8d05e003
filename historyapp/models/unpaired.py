"""Explains results that match no open tool call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from historyapp.core.json import load_fields
from historyapp.models.episodes import Episode
from historyapp.models.fields import at_places, length_of_body, unpack, unpacked_size
from historyapp.models.history import History
from historyapp.models.run_sql import run_sql

MAX_STEPS = 10
"""The maximum number of steps to search. Only an append with an unpaired result reads them."""
MAX_BYTES = 1 << 19
"""The maximum number of bytes of their outputs. Reading longer ones takes too long for a transaction. A
provider's own message and its reasoning count too, although they have no tokens."""

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
    stored = _stored_outputs(history, [row.first_position for row in rows])
    remaining = MAX_BYTES
    for row in rows:
        body = stored.get(row.first_position)
        size = MAX_BYTES + 1 if body is None else unpacked_size(body)
        if body is None or size > remaining:
            yield set()
            continue
        remaining -= size
        tool_calls = load_fields(unpack(body), ("tool_calls",)).get("tool_calls", ())
        yield {tool_call.get("id") for tool_call in tool_calls}


def _stored_outputs(history: History, positions: Sequence[int]) -> dict[int, str | bytes]:
    """The stored bodies at these positions that have at most :data:`MAX_BYTES`, compressed or not."""
    if not positions:
        return {}
    owners = ((history.lineage.session_at(position) or "", position) for position in positions)
    where, values = at_places(owners)
    columns = f"position, CASE WHEN {length_of_body()} <= {MAX_BYTES} THEN body END"
    statement = f"SELECT {columns} FROM historyapp_entry WHERE {where}"  # noqa: S608 no value is in the text
    return {position: body for position, body in run_sql(statement, values) if body is not None}
