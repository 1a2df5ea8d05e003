"""Sessions whose steps were written by rules of an earlier version; a migration names them."""

from typing import Self

from django.db import models

from historyapp.models.sessions import Session


class StaleOutcomesQuerySet(models.QuerySet["StaleOutcomes"]):
    def ready(self) -> Self:
        """Those whose parents are done: a fork goes on from its parent's rows."""
        waiting = StaleOutcomes.objects.filter(session=models.OuterRef("session__forked_from"))
        return self.exclude(models.Exists(waiting)).order_by("session")


class StaleOutcomes(models.Model):
    """A session whose steps have no kinds, targets and likely failures yet, or those of earlier rules.

    A worker works them out (``services.outcomes``) and then deletes the row. Usually the table is empty.
    """

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="stale_outcomes")
    after = models.PositiveIntegerField(default=0)
    """The session's own entries up to this position are done."""

    objects = StaleOutcomesQuerySet.as_manager()

    def __str__(self) -> str:
        return f"outcomes of {self.session_id} after {self.after}"

    @property
    def percent(self) -> int:
        """How far the work is, of the session's own entries."""
        own = max(1, self.session.head - self.session.fork_position)
        return min(99, 100 * max(0, self.after - self.session.fork_position) // own)
