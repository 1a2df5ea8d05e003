"""What people and agents say of whole sessions: a note and a score. Tags are a column of the session.

The row stands beside the session's own, so that an append neither reads nor writes it.
"""

from django.db import models

from historyapp.models.sessions import Session

LONGEST_NOTE = 2_000
"""Characters of a session's note: lists have the whole of it."""
LONGEST_SCORE_NAME = 60
HIGHEST_SCORE = 1_000_000_000
"""A score lies between this number and its negative."""
MOST_TAGS = 50
"""The most tags of one session."""
LONGEST_TAG = 100


class Annotation(models.Model):
    """The note and the score of a session."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="annotation")
    note = models.TextField(blank=True)
    """Empty: none."""
    noted_by = models.CharField(max_length=200, blank=True)
    """Who wrote the note last."""
    noted_at = models.DateTimeField(null=True)
    score = models.FloatField(null=True)
    score_name = models.CharField(max_length=LONGEST_SCORE_NAME, blank=True)
    """What the score measures; empty: not said."""
    scored_by = models.CharField(max_length=200, blank=True)
    scored_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"annotation of {self.session_id}"


def annotation_of(session: Session) -> Annotation:
    """The session's annotation; an empty one, which is not stored, where it has none."""
    found: Annotation | None = getattr(session, "annotation", None)
    return found or Annotation(session=session)
