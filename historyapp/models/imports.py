"""What has been imported, so that importing again adds only what is new."""

from django.db import models
from django.utils import timezone

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project
from historyapp.models.sessions import Session


class ImportSource(models.Model):
    """One session of one transcript, and how far it has been imported."""

    project = models.ForeignKey(Project, models.CASCADE)
    format = models.CharField(max_length=40)
    source_id = models.CharField(max_length=300)
    variant = models.PositiveSmallIntegerField(default=0)
    """Files with one id and different beginnings become separate sessions."""
    file = models.CharField(max_length=300, blank=True)
    """The name of the first file it was imported from."""
    session = models.ForeignKey(Session, models.CASCADE, related_name="import_sources")
    settled = models.PositiveIntegerField(default=0)
    """How many operations are imported and final."""
    settled_digest = models.CharField(max_length=64, blank=True)
    """The chained digest of those operations."""
    settled_position = models.PositiveIntegerField(default=0)
    """The session's head after them."""
    provisional_digests = JSONText(default=list)
    """The digests of the operations after them, which a grown file may change."""
    shifts = JSONText(default=list)
    """``[source position, n]``: from here on, entries are ``n`` positions further in the session."""
    spawned_by = models.CharField(max_length=300, blank=True)
    """Source id of the session that started this one, which may be imported later."""
    imported_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("project", "format", "source_id", "variant"), name="import_source_once"
            ),
        )
        indexes = (models.Index(fields=("project", "format", "spawned_by"), name="import_source_children"),)

    def __str__(self) -> str:
        return f"{self.format}: {self.source_id}"
