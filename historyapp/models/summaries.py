"""Summaries: text that stands for a range of positions, wherever that range is live."""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from uuid import UUID

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.lineage import Lineage
from historyapp.models.entries import read_in_pages, span_batches
from historyapp.models.fields import JSONText
from historyapp.models.sessions import Session, session_ids

MOST_MARKS = 400
"""Summaries that one window of a list is marked from."""


class SummaryQuerySet(models.QuerySet["Summary"]):
    def live(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], as_of: int | None = None
    ) -> list["Summary"]:
        """The summaries that hold in this lineage and end within ``positions`` (both included), oldest first.

        A summary holds where its last entry is live: everything before an entry is the same in every lineage.
        With ``as_of``, only what had been made by then in this session or before it was forked.
        """
        rows = self.filter(session_id__in=session_ids(lineage), last_position__range=positions)
        return [
            row
            for row in rows.order_by("last_position", "level", "id")
            if lineage.contains(str(row.session_id), row.last_position) and row.known_at(session, as_of)
        ]

    def newest_first(self, lineage: Lineage, before: int) -> Iterator["Summary"]:
        """The summaries that hold in this lineage and end before a position, by their ends, the latest first.

        Of those with the same end the higher one comes first. They are read as they are consumed.
        """
        for batch in span_batches(reversed(lineage.cut(before - 1).spans)):
            ends = [
                models.Q(session_id=UUID(span.session), last_position__range=(span.first, span.last))
                for span in batch
            ]
            rows = self.filter(reduce(or_, ends))
            yield from read_in_pages(rows.order_by("-last_position", "-level", "-id"))

    def page(
        self,
        session: Session,
        lineage: Lineage,
        limit: int,
        *,
        after: tuple[int, UUID] | None = None,
        as_of: int | None = None,
    ) -> list["Summary"]:
        """The first ``limit`` live summaries after that of a last position and id, in this order."""
        found: list[Summary] = []
        while len(found) < limit:
            rows = self.filter(session_id__in=session_ids(lineage), last_position__lte=lineage.last)
            if after is not None:
                later = models.Q(last_position__gt=after[0]) | models.Q(pk__gt=after[1])
                rows = rows.filter(later, last_position__gte=after[0])
            some = list(rows.order_by("last_position", "pk")[:limit])
            found += [
                row
                for row in some
                if lineage.contains(str(row.session_id), row.last_position) and row.known_at(session, as_of)
            ]
            if len(some) < limit:
                break
            after = some[-1].last_position, some[-1].pk
        return found[:limit]

    def marks(
        self, session: Session, lineage: Lineage, positions: tuple[int, int], as_of: int | None = None
    ) -> list["Summary"]:
        """The summaries that hold in this lineage and cover any of ``positions``, without their texts.

        For lists: it looks at the next few hundred that end there or later, whatever the session holds.
        """
        ends = self.filter(session_id__in=session_ids(lineage), last_position__gte=positions[0])
        return [
            row
            for row in ends.defer("text", "key_points").order_by("last_position", "level", "id")[:MOST_MARKS]
            if row.first_position <= positions[1]
            and lineage.contains(str(row.session_id), row.last_position)
            and row.known_at(session, as_of)
        ]

    def covering(
        self, session: Session, lineage: Lineage, position: int, as_of: int | None = None
    ) -> list["Summary"]:
        """The summaries that hold in this lineage and cover a position, the narrowest first.

        Looks at the next 100 that end there or later, so that it costs the same in every session.
        """
        rows = self.filter(session_id__in=session_ids(lineage), last_position__gte=position)
        return [
            row
            for row in rows.order_by("last_position", "level", "id")[:100]
            if row.first_position <= position
            and lineage.contains(str(row.session_id), row.last_position)
            and row.known_at(session, as_of)
        ]


class Summary(models.Model):
    """Never edited; a newer or higher one wins in a context."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="summaries")
    """The session whose own entry ``last_position`` is; a parent, where a fork summarises what it shares."""
    made_in = models.ForeignKey(Session, models.CASCADE, related_name="+")
    made_at = models.PositiveIntegerField()
    """The head of ``made_in`` when it was made."""
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    first_step = models.PositiveIntegerField()
    last_step = models.PositiveIntegerField()
    level = models.PositiveSmallIntegerField(default=1)
    """1: one episode, 2: a range, 3: a digest of ranges."""
    text = JSONText()
    key_points = JSONText(default=list)
    strategy = models.CharField(max_length=50, default="manual")
    model = models.CharField(max_length=200, blank=True)
    tokens_before = models.PositiveIntegerField(default=0)
    tokens_after = models.PositiveIntegerField(default=0)
    cost = models.PositiveBigIntegerField(null=True)
    """What the model call cost, in millionths of a dollar; null: nothing, or the price is not known."""
    run = models.ForeignKey("CompressionRun", models.SET_NULL, null=True, related_name="summaries")
    """The compression run that made it; null for those made by hand or imported."""
    actor = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = SummaryQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("session", "last_position"), name="summary_by_end"),)

    def __str__(self) -> str:
        return f"summary of {self.first_position}–{self.last_position}"

    def known_at(self, session: Session, as_of: int | None) -> bool:
        """Whether it had been made when ``as_of`` was the session's head; always, without ``as_of``."""
        if as_of is None:
            return True
        made_here = self.made_in_id == session.id
        return self.made_at <= (as_of if made_here else min(as_of, session.fork_position))


def own_by_step(summaries: Iterable[Summary]) -> dict[int, Summary]:
    """For each step number the newest summary that stands for this step alone.

    A range's summary is no step's own, and whether a slice of the history holds it must not matter.
    """
    own = (summary for summary in summaries if summary.first_step == summary.last_step)
    return {s.first_step: s for s in sorted(own, key=lambda s: (s.level, s.id))}
