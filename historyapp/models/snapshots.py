"""Snapshots of served contexts, and the corrections of token counts by providers' usage."""

from uuid import UUID

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models.fields import PackedJSON
from historyapp.models.projects import Project
from historyapp.models.sessions import Session


class SnapshotQuerySet(models.QuerySet["Snapshot"]):
    def page(
        self, session: Session, limit: int, *, before: UUID | None = None, as_of: int | None = None
    ) -> list["Snapshot"]:
        """A session's own snapshots that are older than ``before``, newest first."""
        rows = self.filter(session=session)
        if as_of is not None:
            rows = rows.filter(position__lte=as_of)
        if before is not None:
            rows = rows.filter(pk__lt=before)
        return list(rows.defer("tools", "manifest", "settings", "summaries").order_by("-pk")[:limit])


class Snapshot(models.Model):
    """The data to rebuild a context from the log and to compare it with the served one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="snapshots", db_index=False)
    position = models.PositiveIntegerField()
    """The position of the context: the head, unless the request gave another."""
    created_at = models.DateTimeField(default=timezone.now)
    policy = models.CharField(max_length=50)
    format = models.CharField(max_length=50)
    model = models.CharField(max_length=200, blank=True)
    max_tokens = models.PositiveIntegerField(null=True)
    """The budget in tokens. Null: no limit."""
    settings = PackedJSON(default=dict)
    """All settings of the session at that time."""
    factor = models.FloatField(default=1.0)
    """The model's tokens for each token of our count, if known."""
    tools = PackedJSON(default=list)
    screen_tokens = models.PositiveIntegerField(default=0)
    """The tokens of the live screen, whose text is never stored."""
    summaries = PackedJSON(default=list)
    """The ids of the summaries that the policy received."""
    manifest = PackedJSON()
    """:class:`historyapp.core.manifest.Manifest` without defaults."""
    sha256 = models.CharField(max_length=64)
    """The hash of the request's canonical bytes, without the live screen."""
    prefix_sha256 = models.CharField(max_length=64, blank=True, default="", db_default="")
    """The hash without cache breakpoints. Reasoning is sent again only if everything before it has this hash.
    Empty in snapshots from before 2026-11-26, whose contexts kept all reasoning."""
    estimated = models.PositiveIntegerField()
    """Our own count of the tokens of the whole request."""
    counted = models.PositiveIntegerField(null=True)
    """The count of the provider's endpoint, or null if it was not called."""
    billed = models.PositiveIntegerField(null=True)
    """The input tokens that the model call reported, or null."""
    output_position = models.PositiveIntegerField(null=True)
    """The position of the ``model_output`` that answered it, or null."""

    objects = SnapshotQuerySet.as_manager()

    class Meta:
        indexes = (
            models.Index(fields=("session", "id"), name="snapshot_by_session"),
            models.Index(fields=("session", "position"), name="snapshot_by_position"),
        )

    def __str__(self) -> str:
        return f"snapshot at {self.position}"


class TokenCorrection(models.Model):
    """Sums of billed and of estimated tokens of requests, for a project and a model."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    model = models.CharField(max_length=200)
    calls = models.PositiveIntegerField(default=0)
    ours = models.PositiveBigIntegerField(default=0)
    """Tokens by our own count, before any correction."""
    theirs = models.PositiveBigIntegerField(default=0)
    """Billed input tokens."""
    missed = models.PositiveBigIntegerField(default=0)
    """The sum of the absolute errors of estimates, in tokens."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "model"), name="token_correction_once"),)

    def __str__(self) -> str:
        return f"correction of {self.model}"

    @property
    def error(self) -> float | None:
        """The mean absolute error as a share of the billed tokens, or None."""
        return self.missed / self.theirs if self.theirs else None
