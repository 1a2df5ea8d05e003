"""A note and a score on a whole session, from people and agents. Tags are a column of the session.

They are in a separate table, so that an append neither reads nor writes them.
"""

from django.db import models

from historyapp.models.sessions import Session

MAX_NOTE = 2_000
"""The maximum number of characters of a session's note. Lists include the whole note."""
MAX_SCORE_NAME = 60
MAX_SCORE = 1_000_000_000
"""Scores are between minus this number and this number."""


class Annotation(models.Model):
    """The note and the score of a session."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="annotation")
    note = models.TextField(blank=True)
    """Empty without a note."""
    noted_by = models.CharField(max_length=200, blank=True)
    """Who wrote the note last."""
    noted_at = models.DateTimeField(null=True)
    score = models.FloatField(null=True)
    score_name = models.CharField(max_length=MAX_SCORE_NAME, blank=True)
    """What the score measures. May be empty."""
    scored_by = models.CharField(max_length=200, blank=True)
    scored_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"annotation of {self.session_id}"


def annotation_of(session: Session) -> Annotation:
    """The session's annotation, or a new empty one that is not saved."""
    annotation: Annotation | None = getattr(session, "annotation", None)
    return annotation or Annotation(session=session)
