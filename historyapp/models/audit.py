"""Audit records: who did what, and when."""

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project

DELETION = "purge"
"""The action of the record of a session's deletion. It also names the session's former project."""


class AuditRecord(models.Model):
    """The actor and time of a rewind, fork, export, import, purge, or change of a key or status."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE)
    created_at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=200)
    """``user:name`` or ``key:prefix``."""
    action = models.CharField(max_length=50)
    session = models.UUIDField(null=True)
    """Not a foreign key: the record stays when the session is deleted."""
    detail = JSONText(default=dict)

    class Meta:
        indexes = (
            models.Index(fields=("project", "-created_at"), name="audit_by_time"),
            models.Index(fields=("session",), condition=models.Q(action=DELETION), name="audit_of_deletions"),
        )

    def __str__(self) -> str:
        return f"{self.actor} {self.action}"
