"""A worker that needs no broker, no model and no thread."""

from uuid import UUID

from uuid_utils.compat import uuid7

from historyapp.core.strategies.base import Written
from historyapp.models import CompressionItem
from historyapp.services.compression.claims import Outcome, claim, store
from historyapp.services.compression.finishing import finish
from historyapp.services.compression.planning import plan


def carry_out(run: str | UUID, *, most: int = 1000, failing: tuple[int, ...] = ()) -> None:
    """Does up to ``most`` items of a run; those of the steps in ``failing`` fail."""
    run, owner = UUID(str(run)), uuid7()
    plan(run)
    items = claim(run, owner, most)
    store(run, owner, [_outcome(item, failing) for item in items])
    finish(run)


def _outcome(item: CompressionItem, failing: tuple[int, ...]) -> Outcome:
    if item.first_step in failing:
        return Outcome(item.pk, error="The model refused: no.")
    return Outcome(item.pk, Written(f"did step {item.first_step}"), tokens=3)
