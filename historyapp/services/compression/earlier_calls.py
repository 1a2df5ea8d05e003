"""Lets a run wait for the model calls of a cancelled one, whose summaries are paid for and kept."""

import time
from collections.abc import Callable
from uuid import UUID

from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.database_clock import database_now
from historyapp.services.connections import release_connection

CHECK_SECONDS = 1.0


def wait_for_earlier_calls(run_id: UUID, should_stop: Callable[[], bool]) -> None:
    """Waits while ended runs of the session with the same strategy have items in progress. Begun before
    these are stored, a new or a retried run would summarise, and pay for, the same steps again.
    """
    while not should_stop() and _has_earlier_calls(run_id):
        release_connection()
        time.sleep(CHECK_SECONDS)


def _has_earlier_calls(run_id: UUID) -> bool:
    run = CompressionRun.objects.active().filter(pk=run_id).first()
    if run is None or run.trial or run.again:
        return False
    others = CompressionRun.objects.filter(session=run.session_id, strategy=run.strategy, trial=False)
    claimed = CompressionItem.objects.in_progress(database_now())
    return claimed.filter(run__in=others.exclude(pk=run_id)).exists()
