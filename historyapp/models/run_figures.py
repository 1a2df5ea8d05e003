"""Checkpoints of a run's figures. The figures at a later position are computed from a checkpoint."""

from uuid import UUID

from django.db import models

from historyapp.core.lineage import Lineage
from historyapp.core.live_spans import spans_at
from historyapp.core.overview.figures import VERSION
from historyapp.models.fields import PackedText
from historyapp.models.sessions import Session

_MAX_CHECKED = 16
"""The maximum number of checkpoints that are checked one by one for being live."""
_AT_ONCE = 500
"""The number of further checkpoints that are checked together."""


class FiguresCheckpointQuerySet(models.QuerySet["FiguresCheckpoint"]):
    def newest_in(self, lineage: Lineage, steps: int) -> "FiguresCheckpoint | None":
        """The newest checkpoint in the lineage, or None.

        Usually it is one of the session's newest. Takes may have many newer ones, so the others are looked up
        :data:`_AT_ONCE` at a time.

        Args:
            steps: the number of steps of the lineage.
        """
        owners = [UUID(owner) for owner in lineage.owners]
        rows = self.filter(session_id__in=owners, version=VERSION, steps__lt=steps)
        newest = rows.order_by("-steps", "-position")
        places = list(newest.values_list("session_id", "position")[:_MAX_CHECKED])
        for session, position in places:
            if lineage.contains(str(session), position):
                return self.get(session_id=session, position=position)
        start = len(places)
        while start >= _MAX_CHECKED and places:
            places = list(newest.values_list("session_id", "position")[start : start + _AT_ONCE])
            spans = spans_at(lineage, (position for _, position in places))
            for session, position in places:
                if position in spans and spans[position].session == str(session):
                    return self.get(session_id=session, position=position)
            start += len(places)
        return None


class FiguresCheckpoint(models.Model):
    """The figures of all entries before an output. These entries are the same in every lineage."""

    pk = models.CompositePrimaryKey("session", "position")
    session = models.ForeignKey(Session, models.CASCADE, related_name="figures", db_index=False)
    position = models.PositiveIntegerField()
    """The position of the output."""
    steps = models.PositiveIntegerField()
    """The number of steps before the output."""
    version = models.PositiveSmallIntegerField()
    """The version of the rules, see :data:`historyapp.core.overview.figures.VERSION`."""
    state = PackedText()
    """:class:`historyapp.core.overview.figures.RunFigures` as JSON."""

    objects = FiguresCheckpointQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("session", "steps"), name="figures_by_steps"),)

    def __str__(self) -> str:
        return f"figures of {self.steps} steps"
