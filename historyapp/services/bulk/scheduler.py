"""Chooses the bulk action that a thread works on next."""

from historyapp.models import BulkAction
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler


class BulkScheduler(FairScheduler):
    """Divides the threads for bulk actions among projects."""

    one_thread_for_project = True

    def active(self) -> list[ActiveWork]:
        actions = BulkAction.objects.active().order_by("pk")
        return [ActiveWork(*row) for row in actions.values_list("pk", "project_id", "created_at")]
