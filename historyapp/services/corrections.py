"""What providers bill for our requests, as the factor by which our own token counts are corrected.

OpenAI's models are counted exactly; all others are estimated, and each call's usage makes that better.
"""

from math import ceil
from uuid import UUID

from django.db.models import F

from historyapp.core.tokens import encoding_for
from historyapp.models import TokenCorrection

LEAST, MOST = 0.5, 4.0
"""Bounds of a factor: usage beyond them is of another request, or nonsense."""


def correction_of(project_id: UUID, model: str) -> TokenCorrection | None:
    """What is known of a model's tokens; None before its first call."""
    return TokenCorrection.objects.filter(project_id=project_id, model=model).first() if model else None


def learned_factor(correction: TokenCorrection | None) -> float | None:
    """The model's tokens for each of ours; None where ours are exact, or nothing has been learned yet."""
    if correction is None or not correction.ours or encoding_for(correction.model) is not None:
        return None
    # Rounded up to hundredths, so that contexts do not change with every call.
    return ceil(correction.theirs * 100 / correction.ours) / 100


def learn(project_id: UUID, model: str, *, ours: int, estimated: int, billed: int) -> None:
    """Takes the usage of one call into account.

    Args:
        ours: tokens by our own count, uncorrected.
        estimated: the same, corrected by what was known before the call.
    """
    if not (model and ours and LEAST <= billed / ours <= MOST):
        return
    row, _ = TokenCorrection.objects.get_or_create(project_id=project_id, model=model)
    TokenCorrection.objects.filter(pk=row.pk).update(
        calls=F("calls") + 1,
        ours=F("ours") + ours,
        theirs=F("theirs") + billed,
        missed=F("missed") + abs(estimated - billed),
    )
