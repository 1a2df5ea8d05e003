"""Compression runs and their items. These rows store the remaining work; messages only wake workers."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.strategies.base import NOT_REPEATED
from historyapp.models.fields import JSONText
from historyapp.models.keys import ApiKey
from historyapp.models.projects import Project
from historyapp.models.sessions import Session
from historyapp.models.summaries import Summary

MAX_CLAIM = timedelta(hours=2)
"""A claim that expires later than this was made before the clock was set back. The setting allows one hour.
"""
AUTOMATIC = "automatic"
"""The actor of an automatic run, until somebody retries it."""


class RunQuerySet(models.QuerySet["CompressionRun"]):
    def active(self) -> Self:
        """Runs that have not ended."""
        return self.filter(state__in=CompressionRun.ACTIVE)

    def not_in_planning(self, now: datetime) -> Self:
        """Runs except those that a worker plans with a claim that has not expired."""
        return self.exclude(planned=False, planning_until__range=(now, now + MAX_CLAIM))

    def newest_first(self) -> Self:
        """The runs to list: all except automatic runs that had nothing to do."""
        idle = models.Q(automatic=True, state=CompressionRun.State.SUCCEEDED, total=0)
        return self.exclude(idle).order_by("-id")


class CompressionRun(models.Model):
    """One background job that makes summaries of one session's steps."""

    class State(models.TextChoices):
        QUEUED = "queued", "queued"
        RUNNING = "running", "running"
        SUCCEEDED = "succeeded", "succeeded"
        PARTLY_FAILED = "partly_failed", "partly failed"
        FAILED = "failed", "failed"
        CANCELLED = "cancelled", "cancelled"

    ACTIVE = (State.QUEUED, State.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    """The project of the session, so that a project's runs are read by an index."""
    session = models.ForeignKey(Session, models.CASCADE, related_name="compression_runs")
    strategy = models.CharField(max_length=50)
    model = models.CharField(max_length=200, blank=True)
    """``provider:model``, ``local``, or empty for strategies without a model."""
    options = JSONText(default=dict)
    """Strategy options that differ from the defaults."""
    again = models.BooleanField(default=False)
    """Whether to summarise steps again that have a summary of this strategy."""
    trial = models.BooleanField(default=False)
    """Whether the summaries are stored only in the items, for comparison."""
    comparison = models.UUIDField(null=True)
    """Shared by the trial runs of one comparison."""
    automatic = models.BooleanField(default=False)
    """Whether it was started automatically by the session's settings."""
    state = models.CharField(max_length=15, choices=State, default=State.QUEUED)
    note = models.TextField(blank=True)
    """What went wrong and what to do, in one or two sentences."""
    head = models.PositiveIntegerField()
    """The session's head when the run was requested. Step numbers are as of this position."""
    from_step = models.PositiveIntegerField()
    to_step = models.PositiveIntegerField()
    """Less than ``from_step`` if there was nothing to do."""
    batch_size = models.PositiveIntegerField(null=True)
    """The session's ``compression_batch_size`` when the run was requested, on which its cost depends. Null in
    runs of earlier versions."""
    planned = models.BooleanField(default=False)
    """Whether its items have been stored."""
    planned_to = models.PositiveIntegerField(null=True)
    """The last step for which items have been stored, if any are needed. Null: none yet."""
    planning_until = models.DateTimeField(null=True)
    """The end of the claim of the worker that plans a run of several pages. The worker extends it."""
    total = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0)
    """Model calls, including failed ones."""
    tokens_in = models.PositiveBigIntegerField(default=0)
    """Reported by the provider, or our own count if it reported none."""
    tokens_out = models.PositiveBigIntegerField(default=0)
    cost = models.PositiveBigIntegerField(null=True)
    """In millionths of a dollar; null if the model's price is unknown."""
    prices_as_of = models.CharField(max_length=40, blank=True)
    """The date of the price list used for ``cost``. Empty without a model, and in runs of earlier versions.
    """
    tokens_before = models.PositiveBigIntegerField(default=0)
    """Tokens of the summarised steps."""
    tokens_after = models.PositiveBigIntegerField(default=0)
    """Tokens of the summaries."""
    actor = models.CharField(max_length=200, blank=True)
    api_key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, related_name="+")
    """The API key that started or retried the run, whose spending caps apply. Null: a person or the settings.
    """
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        indexes = (
            models.Index(fields=("session", "-id"), name="run_by_session"),
            models.Index(fields=("project", "-id"), name="run_by_project"),
            # Each process polls every second for runs that have not ended. With a condition instead of the
            # column, SQLite would read all runs, because its planner does not see the values of parameters.
            models.Index(fields=("state", "id"), name="run_by_state"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("session",),
                name="one_run_at_a_time",
                condition=models.Q(state__in=("queued", "running"), trial=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.strategy} of steps {self.from_step} to {self.to_step}"

    @property
    def active(self) -> bool:
        return self.state in self.ACTIVE

    @property
    def tokens_saved(self) -> int:
        """Negative if the summaries are longer than their steps."""
        return self.tokens_before - self.tokens_after


class ItemQuerySet(models.QuerySet["CompressionItem"]):
    def open(self) -> Self:
        """Items that are neither done nor failed."""
        return self.filter(state__in=(CompressionItem.State.WAITING, CompressionItem.State.CLAIMED))

    def in_progress(self, now: datetime) -> Self:
        """Items with a claim that has not expired."""
        until = (now, now + MAX_CLAIM)
        return self.filter(state=CompressionItem.State.CLAIMED, claimed_until__range=until)

    def claimable(self, now: datetime) -> Self:
        """Waiting items, and items with an expired claim."""
        waiting = models.Q(state=CompressionItem.State.WAITING)
        claimed = models.Q(state=CompressionItem.State.CLAIMED)
        expired = models.Q(claimed_until__lt=now) | models.Q(claimed_until__gt=now + MAX_CLAIM)
        return self.filter(waiting | (claimed & expired)).order_by("number")

    def not_repeated(self) -> Self:
        """Failed items whose steps would fail again."""
        return self.filter(state=CompressionItem.State.FAILED, error__endswith=NOT_REPEATED)


class CompressionItem(models.Model):
    """One summary that a run has to make."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        CLAIMED = "claimed", "under way"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    run = models.ForeignKey(CompressionRun, models.CASCADE, related_name="items")
    number = models.PositiveIntegerField()
    """1, 2, 3 … within the run."""
    level = models.PositiveSmallIntegerField(default=1)
    """1: one step. 2: a range. 3 and more: a digest of summaries."""
    first_step = models.PositiveIntegerField()
    last_step = models.PositiveIntegerField()
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    """The steps' positions when the item was stored. A later rewind can move them into a take."""
    parts = JSONText(default=list)
    """For a digest, the ids of the summaries that it combines."""
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    claim = models.UUIDField(null=True)
    """The id of the worker's claim. A worker makes a new id for each run."""
    claimed_until = models.DateTimeField(null=True)
    """The end of the claim. The worker extends it while it runs."""
    error = models.TextField(blank=True)
    """Why it failed, in one sentence."""
    summary = models.OneToOneField(Summary, models.SET_NULL, null=True, related_name="item")
    text = JSONText(null=True)
    """The text of the summary, only in a trial."""
    tokens_before = models.PositiveIntegerField(default=0)
    tokens_after = models.PositiveIntegerField(default=0)
    cost = models.PositiveBigIntegerField(null=True)
    """The cost of its model calls in millionths of a dollar. Null if the price is unknown or no call was
    made.
    """

    objects = ItemQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run", "number"), name="item_once"),)
        indexes = (
            models.Index(fields=("run", "state", "number"), name="item_by_state"),
            models.Index(fields=("claim",), name="item_by_claim", condition=models.Q(claim__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.first_step}–{self.last_step}"


def adjacent_items(items: Iterable[CompressionItem]) -> list[list[CompressionItem]]:
    """The items of steps, in groups without a gap. Digests are left out."""
    adjacent: list[list[CompressionItem]] = []
    for item in items:
        if item.parts:
            continue
        if adjacent and item.first_step == adjacent[-1][-1].last_step + 1:
            adjacent[-1].append(item)
        else:
            adjacent.append([item])
    return adjacent
