"""Changes the state of many items of a run. A run may have a million, so each transaction changes some."""

from uuid import UUID

from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.compressions import ItemQuerySet
from historyapp.services.changes import record_run_change
from historyapp.services.transactions import writing

CHANGED_AT_ONCE = 2_000
"""The maximum number of items that one transaction changes."""


def fail_waiting(run: CompressionRun, error: str) -> int:
    """Fails the first waiting items of a run, within the caller's transaction, which has locked it.

    The caller saves ``run.failed``. Returns how many items failed.
    """
    waiting = run.items.filter(state=CompressionItem.State.WAITING)
    failed = _update_first(waiting, state=CompressionItem.State.FAILED, error=error)
    run.failed += failed
    return failed


def fail_more_waiting(run_id: UUID, error: str) -> bool:
    """Fails the next waiting items of an active run in one transaction. Returns whether there may be more."""
    with writing():
        run = CompressionRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active or not fail_waiting(run, error):
            return False
        run.save(update_fields=("failed",))
        record_run_change(run)
        return True


def reset_failed(run: CompressionRun) -> bool:
    """Makes the first failed items of a run wait again, within the caller's transaction, which has locked it.

    The caller saves ``run.failed``. Returns whether there were any.
    """
    failed = run.items.filter(state=CompressionItem.State.FAILED)
    reset = _update_first(failed, state=CompressionItem.State.WAITING, error="", claim=None)
    run.failed -= reset
    return reset > 0


def waits_for_reset(run: CompressionRun) -> bool:
    """Whether failed items of a retried run must be reset before a worker may start or end it."""
    is_retried = run.state == run.State.QUEUED and run.started_at is not None
    return is_retried and run.items.filter(state=CompressionItem.State.FAILED).exists()


def _update_first(items: ItemQuerySet, **columns: object) -> int:
    numbers = items.order_by("number").values_list("number", flat=True)[:CHANGED_AT_ONCE]
    found = list(numbers)
    return items.filter(number__lte=found[-1]).update(**columns) if found else 0
