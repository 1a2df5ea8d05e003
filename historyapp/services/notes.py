"""Bookmarks of steps, and notes on them."""

from typing import NamedTuple
from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.text import clean
from historyapp.models import Project, Session, StepNote
from historyapp.models.changes import ChangeKind
from historyapp.models.history import History
from historyapp.models.notes import MAX_NOTE, MAX_NOTES
from historyapp.services.append import lock_session, read_session
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
    step = _find_step(project, session_id, number, as_of)
    with writing():
        session = lock_session(project, session_id)
        owner, position = step.owner_in(session), step.position
        # First, because this locks the owner: a fork may write to it at the same time.
        increase_revisions(session_id, {owner})
        note = StepNote.objects.filter(session_id=owner, position=position).first()
        if note is None:
            if StepNote.objects.filter(session_id=owner).count() >= MAX_NOTES:
                raise Conflict(
                    f"A session has at most {MAX_NOTES:,} notes. Delete some that you no longer need."
                )
            note = StepNote(session_id=owner, position=position, number=step.number)
        note.text, note.actor, note.updated_at = clean(text), actor, timezone.now()
        note.save()
        record_change(session, ChangeKind.NOTES)
        return note


def delete_note(project: Project, session_id: UUID, number: int, *, as_of: int | None = None) -> None:
    """Removes the bookmark and the note of a step.

    Raises:
        NotFound: when the session, the step or the note does not exist.
    """
    step = _find_step(project, session_id, number, as_of)
    with writing():
        session = lock_session(project, session_id)
        owner, position = step.owner_in(session), step.position
        increase_revisions(session_id, {owner})
        deleted, _ = StepNote.objects.filter(session_id=owner, position=position).delete()
        if not deleted:
            raise NotFound(f"Step {step.number} has no note.")
        record_change(session, ChangeKind.NOTES)


class _FoundStep(NamedTuple):
    position: int
    """The position of the step's output."""
    number: int
    """From 1."""
    as_of: int

    def owner_in(self, session: Session) -> UUID:
        """The session that has the step's output. Reads only the lineage, so it may be called with the lock
        held."""
        return UUID(session.lineage(self.as_of).session_at(self.position))


def _find_step(project: Project, session_id: UUID, number: int, as_of: int | None) -> _FoundStep:
    """Finds a step before the session is locked, because the inputs after it may be long.

    Later entries and rewinds do not change what was live at a position.
    """
    session = read_session(project, session_id)
    as_of = session.head if as_of is None else as_of
    history = History(session, as_of)
    resolved = history.resolve(number)
    return _FoundStep(history.row(resolved).first_position, resolved, as_of)
