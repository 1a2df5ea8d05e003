"""Actions on many sessions at once. The rows say what is left to do, so any worker can go on with it."""

from datetime import datetime
from typing import Self

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.projects import ApiKey, Project

MOST_SESSIONS = 500
"""The most sessions of one action, or of one archive of exports."""


class BulkActionQuerySet(models.QuerySet["BulkAction"]):
    def active(self) -> Self:
        """Those of which a worker still has to do something."""
        return self.filter(state=BulkAction.State.RUNNING)

    def older_than(self, moment: datetime) -> Self:
        return self.exclude(state=BulkAction.State.RUNNING).filter(created_at__lt=moment)


class BulkAction(models.Model):
    """One action that somebody asked for on many sessions."""

    class Kind(models.TextChoices):
        ADD_TAG = "add_tag", "add a tag"
        REMOVE_TAG = "remove_tag", "remove a tag"
        ARCHIVE = "archive", "archive"
        UNARCHIVE = "unarchive", "unarchive"
        COMPRESS = "compress", "compress"

    class State(models.TextChoices):
        RUNNING = "running", "running"
        FINISHED = "finished", "finished"
        CANCELLED = "cancelled", "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    tag = models.CharField(max_length=100, blank=True)
    """To add or to remove."""
    strategy = models.CharField(max_length=50, blank=True)
    model = models.CharField(max_length=200, blank=True)
    """Of compressions; empty: as each session's settings say."""
    state = models.CharField(max_length=9, choices=State, default=State.RUNNING)
    """Finished: nothing is left to begin. Compressions that it has started may still run."""
    actor = models.CharField(max_length=200, blank=True)
    api_key = models.ForeignKey(ApiKey, models.CASCADE, null=True, related_name="+")
    """The key that asked for it; its spending caps hold. Null: a person did."""
    is_member = models.BooleanField(default=False)
    """Whether a person asked who may not spend money."""
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)

    objects = BulkActionQuerySet.as_manager()

    class Meta:
        indexes = (
            models.Index(
                fields=("project", "id"), name="bulk_action_running", condition=models.Q(state="running")
            ),
        )

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.state})"


class BulkItem(models.Model):
    """The outcome for one session."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DONE = "done", "done"
        UNCHANGED = "unchanged", "unchanged"
        FAILED = "failed", "failed"

    action = models.ForeignKey(BulkAction, models.CASCADE, related_name="items", db_index=False)
    number = models.PositiveSmallIntegerField()
    """1, 2, 3 … within the action."""
    session_id = models.UUIDField()
    """No foreign key: the session may not exist, or be deleted since."""
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    reason = models.CharField(max_length=1000, blank=True)
    """Why it failed, or why nothing had to be done."""
    run_id = models.UUIDField(null=True)
    """The compression run that was started."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("action", "number"), name="bulk_item_once"),)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.state}"
