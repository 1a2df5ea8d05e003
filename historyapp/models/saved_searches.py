"""Saved searches of a project's sessions."""

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.projects import Project

MAX_SAVED = 100
"""Saved searches of one project."""
MAX_NAME = 100
"""Characters."""


class SavedSearch(models.Model):
    """A named query, shared by all members of the project."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="saved_searches", db_index=False)
    name = models.CharField(max_length=MAX_NAME)
    query = models.CharField(max_length=500)
    actor = models.CharField(max_length=200, blank=True)
    """The actor that saved it: ``user:name`` or ``key:prefix``."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="saved_search_name"),)
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
