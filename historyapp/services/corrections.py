"""Factors that correct our token counts, learned from the usage that providers bill.

OpenAI's models are counted exactly. Tokens of all others are estimated, and each model call's usage improves
the estimate.
"""

from math import ceil
from uuid import UUID

from django.db.models import F

from historyapp.core.tokens import encoding_for
from historyapp.models import TokenCorrection

MIN, MAX = 0.5, 4.0
"""Bounds of a factor. Usage beyond them belongs to another request or is wrong."""


def correction_of(project_id: UUID, model: str) -> TokenCorrection | None:
    """The correction for a model's tokens, or None before its first call."""
    return TokenCorrection.objects.filter(project_id=project_id, model=model).first() if model else None


def learned_factor(correction: TokenCorrection | None) -> float | None:
    """The ratio of the model's tokens to ours; None if our count is exact or nothing is learned yet."""
    if correction is None or not correction.ours or encoding_for(correction.model) is not None:
        return None
    # Rounded up to hundredths: otherwise contexts would change with every call.
    return ceil(correction.theirs * 100 / correction.ours) / 100


def learn(project_id: UUID, model: str, *, counted: int, estimated: int, billed: int) -> None:
    """Updates the correction with the usage of one model call.

    Args:
        counted: tokens as Playhead counts them, uncorrected.
        estimated: the same, corrected with the factor before the call.
    """
    if not (model and counted and MIN <= billed / counted <= MAX):
        return
    row, _ = TokenCorrection.objects.get_or_create(project_id=project_id, model=model)
    TokenCorrection.objects.filter(pk=row.pk).update(
        calls=F("calls") + 1,
        ours=F("ours") + counted,
        theirs=F("theirs") + billed,
        missed=F("missed") + abs(estimated - billed),
    )
