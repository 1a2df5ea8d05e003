"""Bookmarks and notes of people and agents on steps. They are not in the log and never change it.

A note belongs to the position of the step's output in its session. All entries before an entry are the same
in every lineage, so the step has the same number wherever it is live. A fork shows the notes of shared steps.
When a rewind moves a step into a take, its notes move with it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import models
from django.db.models.functions import Left
from django.utils import timezone

from historyapp.core.lineage import Lineage
from historyapp.core.live_spans import spans_at
from historyapp.models.ancestors import NOTES
from historyapp.models.compiled import CompiledQuery
from historyapp.models.entries import in_spans, rare_batches
from historyapp.models.fields import session_value
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_NOTES = 1000
"""The maximum number of notes of one session, and of the notes that one search compares. Forks may share
more with the sessions from which they were forked."""
MAX_NOTE = 10_000
"""Characters."""
MAX_START = 200
"""The characters of a note that :meth:`StepNoteQuerySet.starts_between` reads."""


_START_COLUMNS = ("number", Left("text", MAX_START), "session_id", "position")


class NotePlace(NamedTuple):
    """A note without its text."""

    pk: int
    number: int
    position: int
    session_id: Any
    """As the database driver returns it."""


class StepNoteQuerySet(models.QuerySet["StepNote"]):
    def live(self, session: Session, lineage: Lineage, numbers: range, limit: int) -> list[NotePlace]:
        """At most ``limit`` notes on the live steps with these numbers, in their order.

        The sessions from which a fork was made may have thousands of notes on steps that it does not share.
        Those after the last shared step are not read.

        Args:
            session: the session of the lineage.
            numbers: ascending or descending by 1.
        """
        newest_first = numbers.step < 0
        within = self.filter(number__range=sorted((numbers[0], numbers[-1])) if numbers else (1, 0))
        order = "-position" if newest_first else "position"
        live = list[NotePlace]()
        for batch in rare_batches(lineage, session, NOTES, newest_first=newest_first):
            rows = in_spans(within, batch).order_by(order).values_list(*NotePlace._fields)
            live += _live(lineage, map(NotePlace._make, fetch_all(*rows.query.sql_with_params())))
            if len(live) >= limit:
                break
        return live[:limit]

    def starts_between(
        self, session: Session, lineage: Lineage, first: int, last: int
    ) -> list[tuple[int, str]]:
        """Number and start of the text of each note on the live steps ``first`` to ``last``, in order.

        At most :data:`MAX_NOTES` notes, and :data:`MAX_START` characters of each text.
        """
        owners = lineage.owners
        if len(owners) == 1:
            notes = _starts(MAX_NOTES).tuples(UUID(owners[0]), first, last)
            spans = spans_at(lineage, (position for *_, position in notes))
            return [(number, start) for number, start, _, position in notes if position in spans]
        places = self.live(session, lineage, range(first, last + 1), MAX_NOTES)
        if not places:
            return []
        texts = self.filter(pk__in=[place.pk for place in places]).order_by("number")
        return list(texts.values_list("number", Left("text", MAX_START)))

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


def _live(lineage: Lineage, notes: Iterable[NotePlace]) -> list[NotePlace]:
    found = list(notes)
    spans = spans_at(lineage, (note.position for note in found))
    return [
        note
        for note in found
        if note.position in spans and session_value(spans[note.position].session) == note.session_id
    ]


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
