"""Sessions whose steps were recorded by an earlier version. A migration adds the rows."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from historyapp.models.sessions import Session

RETRY_AFTER = timedelta(hours=1)
"""The wait before a retry if a session's entries could not be read."""


class StaleOutcomesQuerySet(models.QuerySet["StaleOutcomes"]):
    def ready(self) -> Self:
        """The sessions to work on now. A fork waits for its parent, because it continues from the parent's
        rows.

        A retry later than :data:`RETRY_AFTER` from now was set before the clock was set back, so it is due.
        """
        now = timezone.now()
        waiting = StaleOutcomes.objects.filter(session=models.OuterRef("session__forked_from"))
        is_due = Q(retry_at=None) | Q(retry_at__lte=now) | Q(retry_at__gt=now + RETRY_AFTER)
        return self.filter(is_due).exclude(models.Exists(waiting)).order_by("session")


class StaleOutcomes(models.Model):
    """A session whose steps have no kinds, targets and likely failures, or outdated ones.

    A worker computes them (``services.outcomes``) and then deletes the row. Usually the table is empty.
    """

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="stale_outcomes")
    after = models.PositiveIntegerField(default=0)
    """The session's own entries up to this position are done."""
    retry_at = models.DateTimeField(null=True)
    """When to retry if the entries could not be read. Null: now."""

    objects = StaleOutcomesQuerySet.as_manager()

    def __str__(self) -> str:
        return f"outcomes of {self.session_id} after {self.after}"

    @property
    def percent(self) -> int:
        """The share of the session's own entries that is done."""
        own = max(1, self.session.head - self.session.fork_position)
        return min(99, 100 * max(0, self.after - self.session.fork_position) // own)
