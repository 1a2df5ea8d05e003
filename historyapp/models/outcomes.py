"""Sessions whose steps were written by rules of an earlier version; a migration names them."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from historyapp.models.sessions import Session

RETRY_AFTER = timedelta(hours=1)
"""How long a session waits whose entries could not be read."""


class StaleOutcomesQuerySet(models.QuerySet["StaleOutcomes"]):
    def ready(self) -> Self:
        """Those to work on now. A fork waits for its parent, because it goes on from its parent's rows.

        A retry later than :data:`RETRY_AFTER` from now was set before the clock was put back, and is due.
        """
        now = timezone.now()
        waiting = StaleOutcomes.objects.filter(session=models.OuterRef("session__forked_from"))
        is_due = Q(retry_at=None) | Q(retry_at__lte=now) | Q(retry_at__gt=now + RETRY_AFTER)
        return self.filter(is_due).exclude(models.Exists(waiting)).order_by("session")


class StaleOutcomes(models.Model):
    """A session whose steps have no kinds, targets and likely failures yet, or those of earlier rules.

    A worker works them out (``services.outcomes``) and then deletes the row. Usually the table is empty.
    """

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="stale_outcomes")
    after = models.PositiveIntegerField(default=0)
    """The session's own entries up to this position are done."""
    retry_at = models.DateTimeField(null=True)
    """When to try again after the entries could not be read; null: now."""

    objects = StaleOutcomesQuerySet.as_manager()

    def __str__(self) -> str:
        return f"outcomes of {self.session_id} after {self.after}"

    @property
    def percent(self) -> int:
        """How far the work is, of the session's own entries."""
        own = max(1, self.session.head - self.session.fork_position)
        return min(99, 100 * max(0, self.after - self.session.fork_position) // own)
