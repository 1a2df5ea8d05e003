"""Projects, which own sessions and API keys, and their members."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.fields import JSONText

PURGED = UUID(int=0)
"""The id of a project without a name, keys and members. A session belongs to it while a purge deletes its
rows, so that nobody finds the session. See :mod:`historyapp.services.deletions`."""


class Project(models.Model):
    """Sessions and API keys belong to one project, and every query is scoped to it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now)
    members = models.ManyToManyField(User, through="Membership", related_name="projects")
    paid_automatic_compression = models.BooleanField(default=False)
    """Whether automatic compression may call a provider's model."""
    allowed_models = JSONText(default=list)
    """The allowed models, with or without the provider prefix. Empty: all."""
    summary_instruction = JSONText(default=str)
    """The instruction of ``ai_summary`` in sessions without their own. Empty: the default."""

    def __str__(self) -> str:
        return self.name

    def locked(self) -> "Project":
        """The row, locked until the end of the transaction.

        Without its key: appends and runs check the foreign keys of new rows at their commit, when they have
        other locks.
        """
        return Project.objects.select_for_update(no_key=True).get(pk=self.pk)

    def count_in(self, active: models.QuerySet[Any]) -> int:
        """How many of the active rows of all projects are this project's.

        Without a condition on the project, for which SQLite would read all rows of the project.
        """
        return list(active.values_list("project_id", flat=True)).count(self.pk)


class Membership(models.Model):
    """A person in a project. Owners may also manage keys and members."""

    project = models.ForeignKey(Project, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE)
    is_owner = models.BooleanField(default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="membership_once"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"
