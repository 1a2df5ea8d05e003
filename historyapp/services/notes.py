"""Bookmarks of steps, and notes on them."""

from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.text import clean
from historyapp.models import Project, StepNote
from historyapp.models.changes import ChangeKind
from historyapp.models.history import History
from historyapp.models.notes import MAX_NOTE, MAX_NOTES
from historyapp.services.append import lock_session
from historyapp.services.changes import record_change
from historyapp.services.summaries import increase_revisions
from historyapp.services.transactions import writing


def put_note(
    project: Project,
    session_id: UUID,
    number: int,
    text: str = "",
    *,
    as_of: int | None = None,
    actor: str = "",
) -> StepNote:
    """Bookmarks a step, with an optional note. Replaces an earlier note on the step.

    Args:
        number: the number of a step that was live at ``as_of`` (by default now); negative numbers count from
            the end.
        text: empty for a bookmark without a note.

    Raises:
        NotFound: when the session or the step does not exist.
        Invalid: when the text is too long.
        Conflict: when the session has too many notes.
    """
    if len(text) > MAX_NOTE:
        raise Invalid(f"A note has at most {MAX_NOTE:,} characters; this one has {len(text):,}.")
    with writing():
        session = lock_session(project, session_id)
        history = History(session, as_of)
        owner, position, number = _locate_step(history, number)
        # First, because this locks the owner: a fork may write to it at the same time.
        increase_revisions(session_id, {owner})
        note = StepNote.objects.filter(session_id=owner, position=position).first()
        if note is None:
            if StepNote.objects.filter(session_id=owner).count() >= MAX_NOTES:
                raise Conflict(
                    f"A session has at most {MAX_NOTES:,} notes. Delete some that you no longer need."
                )
            note = StepNote(session_id=owner, position=position, number=number)
        note.text, note.actor, note.updated_at = clean(text), actor, timezone.now()
        note.save()
        record_change(session, ChangeKind.NOTES)
        return note


def delete_note(project: Project, session_id: UUID, number: int, *, as_of: int | None = None) -> None:
    """Removes the bookmark and the note of a step.

    Raises:
        NotFound: when the session, the step or the note does not exist.
    """
    with writing():
        session = lock_session(project, session_id)
        history = History(session, as_of)
        owner, position, number = _locate_step(history, number)
        increase_revisions(session_id, {owner})
        deleted, _ = StepNote.objects.filter(session_id=owner, position=position).delete()
        if not deleted:
            raise NotFound(f"Step {number} has no note.")
        record_change(session, ChangeKind.NOTES)


def _locate_step(history: History, number: int) -> tuple[UUID, int, int]:
    """The session and position of a step's output, and the step's number from 1."""
    resolved = history.resolve(number)
    position = history.row(resolved).first_position
    return UUID(history.lineage.session_at(position)), position, resolved
