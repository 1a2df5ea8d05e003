"""Results that answered no open call, and what can be said of the calls that they name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from historyapp.core.entries import ModelOutput
from historyapp.core.lineage import Lineage
from historyapp.models.history import History
from historyapp.models.sql import live_entries

LOOKED_AT = 10
"""The newest steps whose calls are compared: only an append with an unpaired result reads them."""

Reason = Literal["answered", "abandoned", "unknown", "no_open_call"]


class UnpairedResult(NamedTuple):
    """A result that was appended and answered nothing."""

    position: int
    place: int
    """Among the results of its entry, from 0."""
    tool_call_id: str | None


@dataclass(frozen=True, slots=True)
class UnpairedReason:
    """A stray, with the reason why it answered nothing."""

    position: int
    index: int
    """Its place among the results of its entry, from 0."""
    tool_call_id: str | None
    reason: Reason
    step: int | None
    """The newest step with a call of this id, if it is one of the newest 10."""


class _Called(NamedTuple):
    """A step and the ids of its calls."""

    first_position: int
    number: int
    abandoned: bool
    ids: frozenset[str]


def explain_unpaired(history: History, strays: Sequence[UnpairedResult]) -> list[UnpairedReason]:
    """Why each stray answered nothing. The entries that they came with have been stored."""
    rows = history.rows(history.steps - LOOKED_AT + 1, history.steps)
    called = [
        _Called(
            row.first_position,
            row.number,
            row.status == "abandoned",
            _call_ids(history.lineage, row.first_position),
        )
        for row in reversed(rows)
    ]
    return [_explained(stray, called) for stray in strays]


def _call_ids(lineage: Lineage, position: int) -> frozenset[str]:
    (entry,) = live_entries(lineage, ("model_output",), after=position - 1, before=position + 1)
    assert isinstance(entry.body, ModelOutput)
    return frozenset(call.id for call in entry.body.tool_calls)


def _explained(stray: UnpairedResult, called: Sequence[_Called]) -> UnpairedReason:
    position, index, id = stray
    if id is None:
        return UnpairedReason(position, index, id, "no_open_call", None)
    for step in called:
        if step.first_position < position and id in step.ids:
            return UnpairedReason(
                position, index, id, "abandoned" if step.abandoned else "answered", step.number
            )
    return UnpairedReason(position, index, id, "unknown", None)
