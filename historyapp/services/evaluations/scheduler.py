"""Chooses the evaluation that a thread works on next."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from historyapp.models import EvaluatedSession, Evaluation
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler


class EvaluationScheduler(FairScheduler):
    """Divides the threads for evaluations among projects."""

    one_thread_for_project = True

    def active(self) -> list[ActiveWork]:
        evaluations = Evaluation.objects.active().order_by("id")
        return [ActiveWork(*row) for row in evaluations.values_list("pk", "project_id", "created_at")]

    def with_work(self, active: Sequence[ActiveWork], now: datetime) -> list[ActiveWork]:
        """Those evaluations with a session that no worker measures, or without any that waits."""
        items = EvaluatedSession.objects.filter(evaluation=OuterRef("pk"))
        waiting = items.filter(state=EvaluatedSession.State.WAITING)
        has_work = Exists(items.claimable(now).order_by()) | ~Exists(waiting)
        found = Evaluation.objects.filter(Q(has_work), pk__in=[evaluation.id for evaluation in active])
        ids = set(found.values_list("pk", flat=True))
        return [evaluation for evaluation in active if evaluation.id in ids]
