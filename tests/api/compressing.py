"""A compression worker for tests, without a broker, a model or a thread."""

from uuid import UUID

from uuid_utils.compat import uuid7

from historyapp.core.strategies.base import SummaryDraft
from historyapp.models import CompressionItem
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.store import finish_run, store_results
from historyapp.services.compression.summarise import ItemResult


def carry_out(run: str | UUID, *, limit: int = 1000, failing: tuple[int, ...] = ()) -> None:
    """Does up to ``limit`` items of a run; those of the steps in ``failing`` fail."""
    run, owner = UUID(str(run)), uuid7()
    plan(run)
    items = claim(run, owner, limit)
    store_results(run, owner, [_result(item, failing) for item in items])
    finish_run(run)


def _result(item: CompressionItem, failing: tuple[int, ...]) -> ItemResult:
    if item.first_step in failing:
        return ItemResult(item.pk, error="The model refused: no.")
    return ItemResult(item.pk, SummaryDraft(f"did step {item.first_step}"), tokens=3)
