"""Figures of a project by day, agent, model and tool: a projection that is updated from the feed of changes.

Figures are stored twice: by session, so that a session's part can be subtracted when it is renamed or
deleted, and by project, so that a page reads few rows.
"""

from django.db import models

from historyapp.models.fields import JSONText
from historyapp.models.projects import Project

MAX_NAME = 200
"""The maximum number of characters of an agent, model or tool name."""


class _Figures(models.Model):
    """The fields of :class:`historyapp.core.day_figures.FiguresKey` and ``DayFigures`` as columns."""

    day = models.DateField()
    model = models.CharField(max_length=MAX_NAME)
    tool = models.CharField(max_length=MAX_NAME)
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
    cache_write_hour = models.BigIntegerField(db_default=0, default=0)
    missing_output = models.BigIntegerField(db_default=0, default=0)

    class Meta:
        abstract = True


class CountedSession(models.Model):
    """The last counted position of a session, and its counted names."""

    session_id = models.UUIDField(primary_key=True)
    """Not a foreign key: the figures of a deleted session stay until they are subtracted from its project."""
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    version = models.PositiveSmallIntegerField(default=0)
    """The version of the rules. 0: count the session again."""
    head = models.PositiveIntegerField(default=0)
    """Own entries up to this position are counted. They count as live if they are live at this position."""
    agent = models.CharField(max_length=MAX_NAME, blank=True)
    model = models.CharField(max_length=MAX_NAME, blank=True)
    began = models.DateField(null=True)
    """The day under which the session itself is counted. Null: not counted yet."""
    newest = JSONText(null=True)
    """The counted figures of the newest step, whose row may still change, or null."""
    moving = JSONText(null=True)
    """A change of many rows that takes several transactions, or null: ``["rename", agent, model, last renamed
    key]``, ``["removal", removed rows]`` or ``["rewind", position, moved entries]``.
    """
    restarted_by = models.BigIntegerField(null=True)
    """The change that deleted a session with this id, after which counting began again, or null."""

    def __str__(self) -> str:
        return f"{self.session_id} up to {self.head}"


class SessionDay(_Figures):
    """The figures of one session's own entries by day, model and tool."""

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
    """The figures of all sessions of an agent by day, model and tool.

    If a model call names no model, it counts for the session's model.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="days", db_index=False)
    agent = models.CharField(max_length=MAX_NAME)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("project", "day", "agent", "model", "tool", "has_cost", "is_live"), name="project_day"
            ),
        )

    def __str__(self) -> str:
        return f"{self.project_id} on {self.day}"


class FiguresProgress(models.Model):
    """The last change that a project's figures include."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True, related_name="+")
    transaction_id = models.BigIntegerField(default=0)
    change_id = models.BigIntegerField(default=0)
    """Its cursor, see :class:`historyapp.models.changes.Cursor`."""
    counted_to = models.UUIDField(null=True)
    """Sessions that are older than the cursor are counted in the order of their ids. This is the last counted
    one, or null.
    """
    is_complete = models.BooleanField(default=False)
    """Whether all older sessions are counted."""
    at = models.DateTimeField(null=True)
    """When the figures last included the whole feed."""

    def __str__(self) -> str:
        return f"figures of {self.project_id}"
