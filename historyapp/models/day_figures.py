"""Figures of a project by day, agent, model and tool: a projection that a reader of the feed keeps.

Each is stored twice: by session, so that what a session added can be taken away again when it is renamed or
deleted, and by project, so that a page reads few rows.
"""

from django.db import models

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project

MOST_NAME = 200
"""Characters of an agent's, a model's or a tool's name."""


class _Figures(models.Model):
    """:class:`historyapp.core.day_figures.FiguresKey` and ``DayFigures`` as columns, explained there."""

    day = models.DateField()
    model = models.CharField(max_length=MOST_NAME)
    tool = models.CharField(max_length=MOST_NAME)
    has_cost = models.BooleanField()
    is_live = models.BooleanField()
    sessions = models.BigIntegerField(default=0)
    steps = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    likely_failures = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    model_calls = models.BigIntegerField(default=0)
    uncached = models.BigIntegerField(default=0)
    cache_read = models.BigIntegerField(default=0)
    cache_write = models.BigIntegerField(default=0)
    output = models.BigIntegerField(default=0)
    cost = models.BigIntegerField(default=0)
    milliseconds = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class CountedSession(models.Model):
    """How far a session is counted, and under which names."""

    session_id = models.UUIDField(primary_key=True)
    """No foreign key: the figures of a deleted session stay until they are taken away from its project."""
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    version = models.PositiveSmallIntegerField(default=0)
    """Of the rules; 0: to be counted anew."""
    head = models.PositiveIntegerField(default=0)
    """Own entries up to this position are counted, live ones as of it."""
    agent = models.CharField(max_length=MOST_NAME, blank=True)
    model = models.CharField(max_length=MOST_NAME, blank=True)
    began = models.DateField(null=True)
    """The day under which the session itself is counted; null: not yet."""
    newest = JSONText(null=True)
    """What was counted of the newest step's row, which may still change, or null."""

    def __str__(self) -> str:
        return f"{self.session_id} up to {self.head}"


class SessionDay(_Figures):
    """What one session's own entries add to a day, by model and tool."""

    session = models.ForeignKey(CountedSession, models.CASCADE, related_name="days", db_index=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("session", "day", "model", "tool", "has_cost", "is_live"), name="session_day"
            ),
        )

    def __str__(self) -> str:
        return f"{self.session_id} on {self.day}"


class ProjectDay(_Figures):
    """What all sessions of an agent add to a day, by model and tool.

    The model of calls that name none is the session's.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="days", db_index=False)
    agent = models.CharField(max_length=MOST_NAME)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("project", "day", "agent", "model", "tool", "has_cost", "is_live"), name="project_day"
            ),
        )

    def __str__(self) -> str:
        return f"{self.project_id} on {self.day}"


class FiguresProgress(models.Model):
    """How far a project's figures follow its feed of changes."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True, related_name="+")
    transaction_id = models.BigIntegerField(default=0)
    change_id = models.BigIntegerField(default=0)
    """The cursor of the feed; see :class:`historyapp.models.changes.Cursor`."""
    counted_to = models.UUIDField(null=True)
    """Sessions that were there before the feed was followed are counted in the order of their ids, up to this
    one; null: none yet."""
    is_complete = models.BooleanField(default=False)
    """Whether all of them are counted."""
    at = models.DateTimeField(null=True)
    """When all changes of the feed were counted last."""

    def __str__(self) -> str:
        return f"figures of {self.project_id}"
