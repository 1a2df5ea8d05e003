"""Factors that correct our token counts, learned from the usage that providers bill.

Tokens of OpenAI's models are counted exactly. Those of all other models are estimated, and the usage of each
model call improves the estimate.
"""

from math import ceil
from uuid import UUID

from django.db.models import F

from historyapp.core.tokens import encoding_for
from historyapp.models import TokenCorrection

MIN_FACTOR, MAX_FACTOR = 0.5, 4.0
"""Bounds of a factor. Usage beyond them belongs to another request or is wrong."""


def correction_of(project_id: UUID, model: str) -> TokenCorrection | None:
    """The correction for a model's tokens, or None before its first model call."""
    return TokenCorrection.objects.filter(project_id=project_id, model=model).first() if model else None


def learned_factor(correction: TokenCorrection | None) -> float | None:
    """The ratio of the model's tokens to ours; None if our count is exact or no usage is known yet."""
    if correction is None or not correction.ours or encoding_for(correction.model) is not None:
        return None
    # Rounded up to hundredths: otherwise contexts would change with every model call.
    return ceil(correction.theirs * 100 / correction.ours) / 100


def update_correction(project_id: UUID, model: str, *, counted: int, estimated: int, billed: int) -> None:
    """Updates the correction with the usage of one model call.

    Args:
        counted: tokens as Playhead counts them, uncorrected.
        estimated: ``counted`` times the factor before the model call.
    """
    if not (model and counted and MIN_FACTOR <= billed / counted <= MAX_FACTOR):
        return
    row, _ = TokenCorrection.objects.get_or_create(project_id=project_id, model=model)
    TokenCorrection.objects.filter(pk=row.pk).update(
        calls=F("calls") + 1,
        ours=F("ours") + counted,
        theirs=F("theirs") + billed,
        missed=F("missed") + abs(estimated - billed),
    )
