"""The turns of compression runs."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from historyapp.models import CompressionItem, CompressionRun
from historyapp.services.turns import ActiveWork, Turns

RUNS_AT_ONCE = 4
"""The threads of a process that start summaries."""


class RunTurns(Turns):
    """Chooses the compression run that a thread works on next.

    A run that must yield first waits for its running model calls, up to two minutes. Meanwhile, a project
    without a thread gets another one.
    """

    shared_threads = RUNS_AT_ONCE

    def active(self) -> list[ActiveWork]:
        runs = CompressionRun.objects.active().order_by("id")
        return [ActiveWork(*row) for row in runs.values_list("pk", "project_id", "created_at")]

    def with_work(self, active: Sequence[ActiveWork], now: datetime) -> list[ActiveWork]:
        """Those runs that no worker has begun, or that have items for one more worker."""
        items = CompressionItem.objects.filter(run=OuterRef("pk"))
        has_work = ~Exists(items.in_progress(now)) | Exists(items.claimable(now).order_by())
        found = CompressionRun.objects.filter(Q(has_work), pk__in=[run.id for run in active])
        ids = set(found.values_list("pk", flat=True))
        return [run for run in active if run.id in ids]
