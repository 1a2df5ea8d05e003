"""Chooses the bulk action that a thread works on next."""

from collections.abc import Sequence
from datetime import datetime

from historyapp.models import BulkAction
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler


class BulkScheduler(FairScheduler):
    """Divides the threads for bulk actions among projects. A project has at most one thread."""

    def active(self) -> list[ActiveWork]:
        actions = BulkAction.objects.active().order_by("pk")
        return [ActiveWork(*row) for row in actions.values_list("pk", "project_id", "created_at")]

    def with_work(self, active: Sequence[ActiveWork], now: datetime) -> list[ActiveWork]:
        busy = set(self.projects.values())
        return [action for action in active if action.project not in busy]
