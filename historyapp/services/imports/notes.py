"""Stores the bookmarks and notes of Playhead's own export format."""

from collections.abc import Sequence

from django.utils import timezone

from historyapp.core.importers.base import AddNote
from historyapp.core.text import clean
from historyapp.models import Entry, Session, StepNote
from historyapp.models.notes import MAX_NOTE, MAX_NOTES
from historyapp.services.summaries import increase_revisions


def write_notes(session: Session, notes: Sequence[AddNote]) -> None:
    """Stores notes on steps of a session that the caller has locked.

    Skips notes on steps that already have one, notes at positions without an output, and all notes beyond
    :data:`~historyapp.models.notes.MAX_NOTES` in a session.

    Args:
        notes: with positions of the session.
    """
    notes_by_position = {note.position: note for note in notes}
    noted_positions = set(StepNote.objects.filter(session=session).values_list("position", flat=True))
    outputs = Entry.objects.filter(
        session=session, position__in=notes_by_position.keys() - noted_positions, kind="model_output"
    )
    new_outputs = outputs.order_by("position").values_list("position", "totals")[
        : max(0, MAX_NOTES - len(noted_positions))
    ]
    new = [_note(session, notes_by_position[position], totals["steps"]) for position, totals in new_outputs]
    if new:
        StepNote.objects.bulk_create(new)
        increase_revisions(session.pk, {session.pk})


def _note(session: Session, note: AddNote, number: int) -> StepNote:
    created_at = note.created_at or timezone.now()
    return StepNote(
        session=session,
        position=note.position,
        number=number,
        text=clean(note.text)[:MAX_NOTE],
        actor=clean(note.actor)[:200],
        created_at=created_at,
        updated_at=note.updated_at or created_at,
    )
