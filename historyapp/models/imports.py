"""The transcripts that have been imported, so that importing one again adds only new entries."""

from django.db import models
from django.utils import timezone

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project
from historyapp.models.sessions import Session


class ImportSource(models.Model):
    """One session of a transcript, and the imported part of it."""

    project = models.ForeignKey(Project, models.CASCADE)
    format = models.CharField(max_length=40)
    source_id = models.CharField(max_length=300)
    variant = models.PositiveSmallIntegerField(default=0)
    """Files with one id and different beginnings become separate sessions."""
    file = models.CharField(max_length=300, blank=True)
    """The name of the first file it was imported from."""
    session = models.ForeignKey(Session, models.CASCADE, related_name="import_sources")
    settled = models.PositiveIntegerField(default=0)
    """The number of imported operations that are final."""
    settled_digest = models.CharField(max_length=64, blank=True)
    """The chained digest of the final operations."""
    settled_position = models.PositiveIntegerField(default=0)
    """The session's head after the final operations."""
    provisional_digests = JSONText(default=list)
    """The digests of later operations, which may change when the file grows."""
    shifts = JSONText(default=list)
    """Pairs ``[source position, n]``: from here on, the session's positions are higher by ``n``."""
    spawned_by = models.CharField(max_length=300, blank=True)
    """The source id of the session that started this one. It may be imported later."""
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

    def session_head(self) -> int:
        """The head of the session. An import keeps the row, so the session is not kept with it."""
        return Session.objects.filter(pk=self.session_id).values_list("head", flat=True).get()
