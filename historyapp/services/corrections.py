"""Factors that correct our token counts, learned from the usage that providers bill.

Tokens of OpenAI's models are counted exactly. Those of all other models are estimated, and the usage of each
model call improves the estimate.
"""

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple
from uuid import UUID

from historyapp.core.tokens import encoding_for
from historyapp.models import TokenCorrection
from historyapp.models.fields import uuid_value
from historyapp.models.run_sql import run_sql_for_each

MIN_FACTOR, MAX_FACTOR = 0.5, 4.0
"""Bounds of a factor. Usage beyond them belongs to another request or is wrong."""
_SUMS = ("calls", "ours", "theirs", "missed")
_ADD = (
    f"INSERT INTO historyapp_tokencorrection (project_id, model, {', '.join(_SUMS)}) "  # noqa: S608
    "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (project_id, model) DO UPDATE SET "
    + ", ".join(f"{name} = historyapp_tokencorrection.{name} + excluded.{name}" for name in _SUMS)
)


def correction_of(project_id: UUID, model: str) -> TokenCorrection | None:
    """The correction for a model's tokens, or None before its first model call."""
    return TokenCorrection.objects.filter(project_id=project_id, model=model).first() if model else None


def learned_factor(correction: TokenCorrection | None) -> float | None:
    """The ratio of the model's tokens to ours; None if our count is exact or no usage is known yet."""
    if correction is None or not correction.ours or encoding_for(correction.model) is not None:
        return None
    # Rounded up to hundredths: otherwise contexts would change with every model call.
    return ceil(correction.theirs * 100 / correction.ours) / 100


class BilledCall(NamedTuple):
    """The input tokens of one model call."""

    model: str
    counted: int
    """As Playhead counts them, uncorrected."""
    estimated: int
    """``counted`` times the factor before the model call."""
    billed: int


def update_corrections(project_id: UUID, calls: Iterable[BilledCall]) -> None:
    """Updates the corrections of a project's models with the usage of model calls, a statement for each
    model."""
    sums: dict[str, tuple[int, int, int, int]] = {}
    for call in calls:
        if call.model and call.counted and MIN_FACTOR <= call.billed / call.counted <= MAX_FACTOR:
            number, ours, theirs, missed = sums.get(call.model, (0, 0, 0, 0))
            missed += abs(call.estimated - call.billed)
            sums[call.model] = (number + 1, ours + call.counted, theirs + call.billed, missed)
    # In order, so that two transactions that update the same corrections do not wait for each other.
    rows = [(uuid_value(project_id), model, *sums[model]) for model in sorted(sums)]
    run_sql_for_each(_ADD, rows)
