"""Bookmarks and notes of people and agents on steps. They are not in the log and never change it.

A note belongs to the position of the step's output in its session. All entries before an entry are the same
in every lineage, so the step has the same number wherever it is live. A fork shows the notes of shared steps.
When a rewind moves a step into a take, its notes move with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Self
from uuid import UUID

from django.db import models
from django.db.models.functions import Left
from django.utils import timezone

from historyapp.core.lineage import Lineage, Span
from historyapp.core.live_spans import spans_at
from historyapp.models.compiled import CompiledQuery
from historyapp.models.sessions import Session

MAX_NOTES = 1000
"""The maximum number of notes of one session: searches and lists of notes read all of them."""
MAX_NOTE = 10_000
"""Characters."""
MAX_START = 200
"""The characters of a note that :meth:`StepNoteQuerySet.starts_between` reads."""


_START_COLUMNS = ("number", Left("text", MAX_START), "session_id", "position")


class StepNoteQuerySet(models.QuerySet["StepNote"]):
    def live(self, lineage: Lineage) -> list["StepNote"]:
        """The notes on the live steps of a lineage, in the order of the steps, without their texts.

        The sessions from which a fork was made have further notes, on steps that it does not share.
        """
        owners = [UUID(owner) for owner in lineage.owners]
        notes = list(self.filter(session_id__in=owners).order_by("number").defer("text"))
        spans = spans_at(lineage, (note.position for note in notes))
        return [note for note in notes if _is_in(spans, note.position, note.session_id)]

    def starts_between(self, lineage: Lineage, first: int, last: int) -> list[tuple[int, str]]:
        """Number and start of the text of each note on the live steps ``first`` to ``last``, in order.

        At most :data:`MAX_NOTES` notes, and :data:`MAX_START` characters of each text.
        """
        owners = [UUID(owner) for owner in lineage.owners]
        if len(owners) == 1:
            notes = _starts(MAX_NOTES).tuples(*owners, first, last)
        else:
            notes = list(self._between(owners, first, last).values_list(*_START_COLUMNS)[:MAX_NOTES])
        spans = spans_at(lineage, (position for *_, position in notes))
        live = [(number, start) for number, start, owner, at in notes if _is_in(spans, at, owner)]
        if len(live) == len(notes) or len(notes) < MAX_NOTES:
            return live
        # The sessions from which a fork was made may have more notes than these on other steps.
        ids = [note.pk for note in self._between(owners, first, last).live(lineage)[:MAX_NOTES]]
        texts = self.filter(pk__in=ids).order_by("number")
        return list(texts.values_list("number", Left("text", MAX_START)))

    def _between(self, owners: Sequence[UUID], first: int, last: int) -> Self:
        return self.filter(session_id__in=owners, number__range=(first, last)).order_by("number")

    def at(self, lineage: Lineage, positions: Iterable[int]) -> dict[int, "StepNote"]:
        """The notes on live steps whose outputs have these positions, by the number of the step."""
        places = {(span.session, position) for position, span in spans_at(lineage, positions).items()}
        owners = {UUID(owner) for owner, _ in places}
        notes = self.filter(session_id__in=owners, position__in=[position for _, position in places])
        return {note.number: note for note in notes if (str(note.session_id), note.position) in places}


class StepNote(models.Model):
    """A bookmark on a step; with a text it is a note."""

    session = models.ForeignKey(Session, models.CASCADE, related_name="notes", db_index=False)
    """The session that owns the step's output. Of a shared step that is a parent."""
    position = models.PositiveIntegerField()
    """The position of the step's output."""
    number = models.PositiveIntegerField()
    """The number of the step."""
    text = models.TextField(blank=True)
    """Empty for a bookmark."""
    actor = models.CharField(max_length=200, blank=True)
    """The last author."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = StepNoteQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("session", "position"), name="note_by_place"),)

    def __str__(self) -> str:
        return f"note on step {self.number}"


def _is_in(spans: Mapping[int, Span], position: int, session: UUID) -> bool:
    """Whether an entry of a session is live, given the live spans at some positions."""
    return position in spans and spans[position].session == str(session)


@lru_cache(maxsize=2)
def _starts(most: int) -> "CompiledQuery[StepNote]":
    """The starts of at most ``most`` notes of one session, on steps from one number to another."""
    notes = StepNote.objects.order_by("number").values_list(*_START_COLUMNS)
    return CompiledQuery(
        lambda id, *numbers: notes.filter(session_id=id, number__range=numbers)[:most],
        UUID(int=1),
        1 << 29,
        1 << 30,
    )
