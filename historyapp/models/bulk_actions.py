"""Actions on many sessions at once. The rows store what is left to do, so any worker can continue."""

from datetime import datetime
from typing import Self

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.keys import ApiKey
from historyapp.models.projects import Project

MAX_SESSIONS = 500
"""The maximum number of sessions of one action, or of one archive of exports."""
MAX_RUNNING = 100
"""The maximum number of actions of one project that run or wait at the same time."""


class BulkActionQuerySet(models.QuerySet["BulkAction"]):
    def active(self) -> Self:
        """Actions that a worker has not finished."""
        return self.filter(state=BulkAction.State.RUNNING)

    def older_than(self, moment: datetime) -> Self:
        return self.exclude(state=BulkAction.State.RUNNING).filter(created_at__lt=moment)


class BulkAction(models.Model):
    """One requested action on many sessions."""

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
    """The tag to add or to remove."""
    strategy = models.CharField(max_length=50, blank=True)
    model = models.CharField(max_length=200, blank=True)
    """For compressions. Empty: the strategy of each session's settings."""
    state = models.CharField(max_length=9, choices=State, default=State.RUNNING)
    """``finished``: every item has been handled. Compressions that were started may still run."""
    actor = models.CharField(max_length=200, blank=True)
    api_key = models.ForeignKey(ApiKey, models.CASCADE, null=True, related_name="+")
    """The API key that requested it, whose spending caps apply. Null if a person requested it."""
    is_member = models.BooleanField(default=False)
    """Whether the person who requested it may not spend money."""
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
    """Not a foreign key: the session may not exist or may have been deleted."""
    state = models.CharField(max_length=9, choices=State, default=State.WAITING)
    reason = models.CharField(max_length=1000, blank=True)
    """Why it failed or was skipped."""
    run_id = models.UUIDField(null=True)
    """The compression run that was started."""
    accepted_strategy = models.CharField(max_length=50, blank=True)
    accepted_model = models.CharField(max_length=200, blank=True)
    """As in a run. The session's settings can change before a worker starts the run."""
    accepted_step = models.PositiveIntegerField(null=True)
    """The last step of the compression that was accepted; 0: there was nothing to compress. Null: none was
    accepted."""
    accepted_cost = models.PositiveBigIntegerField(null=True)
    """The estimate in millionths of a dollar; null if the model's price was unknown and that was accepted."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("action", "number"), name="bulk_item_once"),)

    def __str__(self) -> str:
        return f"{self.session_id}: {self.state}"
