"""Stored responses, for requests that are repeated with the same ``Idempotency-Key``."""

from django.db import models
from django.utils import timezone

from historyapp.models.projects import Project


class IdempotencyKey(models.Model):
    """The response to the first POST with a key. An equal request with this key gets the same response."""

    project = models.ForeignKey(Project, models.CASCADE)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    """SHA-256 of method, path and body."""
    status = models.PositiveSmallIntegerField()
    response = models.TextField()
    sessions = models.TextField(null=True)
    """The ids of the affected sessions, separated by spaces. Null in rows of earlier versions."""
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    """While the request runs: when it was last seen, see :func:`historyapp.models.database_clock.claim_now`.
    """

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "key"), name="idempotency_key_once"),)

    def __str__(self) -> str:
        return self.key
