"""The spending of projects, sessions and API keys on model calls, and its caps."""

from datetime import UTC, date, datetime, timedelta
from typing import Literal, Self
from uuid import UUID

from django.db import connection, models
from uuid_utils.compat import uuid7

from historyapp.core.usage import MICRO, dollar_text
from historyapp.models.database_clock import CLOCK, claim_now
from historyapp.models.fields import JSONText, as_uuid
from historyapp.models.keys import ApiKey
from historyapp.models.projects import Project
from historyapp.models.sessions import Session
from historyapp.models.vendor import on_sqlite

Subject = Literal["project", "session", "key"]
_ANCESTORS = """
WITH RECURSIVE ancestor(id, forked_from_id, spawned_by_id) AS (
    SELECT id, forked_from_id, spawned_by_id FROM historyapp_session WHERE id = %s
    UNION
    SELECT parent.id, parent.forked_from_id, parent.spawned_by_id FROM historyapp_session parent
    JOIN ancestor ON parent.id IN (ancestor.forked_from_id, ancestor.spawned_by_id)
) SELECT id FROM ancestor LIMIT %s
"""
EARLIEST = date(2026, 11, 29)
"""A clock is wrong if it is behind the day on which this was written."""
MAX_DURATION = timedelta(minutes=30)
"""An older reservation belongs to a killed process, because model calls have a time limit of 15 minutes."""
MAX_ANCESTORS = 300
"""The maximum number of sessions that count one model call. Each has two rows, which are locked."""


class CounterQuerySet(models.QuerySet["SpendingCounter"]):
    def of_project(self, project_id: UUID) -> "CounterQuerySet":
        """The counters of the project, without the counters of its sessions and keys."""
        return self.filter(project=project_id, session=None, key=None)

    def capped(self) -> "CounterQuerySet":
        return self.exclude(limit=None)


class SpendingCounter(models.Model):
    """The spending of a project, session or API key by day or month (UTC), with an optional cap.

    A session's counter includes the spending of its forks and sub-agents.
    """

    class Period(models.TextChoices):
        DAY = "day", "day"
        MONTH = "month", "month"

    project = models.ForeignKey(Project, models.CASCADE, related_name="spending")
    session = models.ForeignKey(Session, models.CASCADE, null=True, related_name="spending")
    key = models.ForeignKey(ApiKey, models.CASCADE, null=True, related_name="spending")
    """At most one of ``session`` and ``key`` is set."""
    period = models.CharField(max_length=5, choices=Period)
    limit = models.PositiveBigIntegerField(null=True)
    """The cap in millionths of a dollar. Null: no cap."""
    starts_on = models.DateField()
    """The first day of the period of ``counted``."""
    counted = models.PositiveBigIntegerField(default=0)
    """The spending in millionths of a dollar. An open model call counts with its estimate."""
    refused_on = models.DateField(null=True)
    """The first day of the period in which the cap last refused a model call, or null."""

    objects = CounterQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("project", "period"),
                condition=models.Q(session=None, key=None),
                name="project_counter_once",
            ),
            models.UniqueConstraint(fields=("session", "period"), name="session_counter_once"),
            models.UniqueConstraint(fields=("key", "period"), name="key_counter_once"),
        )
        indexes = (
            models.Index(fields=("project",), name="cap_by_project", condition=models.Q(limit__isnull=False)),
        )

    def __str__(self) -> str:
        return self.period if self.limit is None else f"{dollar_text(self.limit)} a {self.period}"

    @property
    def subject(self) -> Subject:
        """The counted project, session or key."""
        if self.session_id is not None:
            return "session"
        return "project" if self.key_id is None else "key"

    def begin_period(self, now: datetime) -> None:
        """Resets ``counted`` if a new period has begun. The caller must save it.

        A clock that was set back must not start a period twice. If the counter is more than a period ahead,
        the clock was wrong: it counts on from now, so that the cap does not last until then.
        """
        if CLOCK.was_just_set():
            return
        first = period_start(self.period, now)
        if first > self.starts_on:
            self.starts_on, self.counted = first, 0
        elif self.starts_on > next_period(self.period, first) and now.date() >= EARLIEST:
            self.starts_on = first

    @property
    def ends_at(self) -> datetime:
        """When the next period begins."""
        following = next_period(self.period, self.starts_on)
        return datetime(following.year, following.month, following.day, tzinfo=UTC)

    @property
    def limit_dollars(self) -> str:
        """The cap as the text of a form field. Empty without a cap."""
        if self.limit is None:
            return ""
        return f"{self.limit / MICRO:.6f}".rstrip("0").rstrip(".")


class ReservationQuerySet(models.QuerySet["SpendingReservation"]):
    def running(self) -> Self:
        """The reservations of calls that may still run."""
        now = claim_now()
        return self.filter(expires_at__range=(now, now + MAX_DURATION))

    def expired(self) -> Self:
        """The others. Those that expire later were made before the machine was restarted."""
        now = claim_now()
        ahead = models.Q(expires_at__gt=now + MAX_DURATION)
        return self.filter(models.Q(expires_at__lt=now) | ahead)


class SpendingReservation(models.Model):
    """The estimate of an open model call, which its counters include.

    The row is deleted when the model call ends. If the process was killed, the row stays until it expires.
    The estimate then stays in the counters, because the model call may have been billed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE)
    counters = JSONText(default=list)
    """Primary keys of the counters."""
    amount = models.PositiveBigIntegerField()
    """The estimate in millionths of a dollar."""
    label = models.CharField(max_length=100, default="", db_default="")
    """The label of its cost in the totals: a purpose and a provider. Empty in rows of earlier versions."""
    day = models.DateField()
    """The day (UTC) on which the model call began, by its counters. It counts in this day and its month."""
    expires_at = models.DateTimeField()
    """See :func:`historyapp.models.database_clock.claim_now`."""

    objects = ReservationQuerySet.as_manager()

    class Meta:
        indexes = (models.Index(fields=("project", "expires_at"), name="reservation_by_expiry"),)

    def __str__(self) -> str:
        return f"{dollar_text(self.amount)} on {self.day}"

    def counts_in(self, counter: SpendingCounter) -> bool:
        """Whether the counter's current period includes it."""
        return counter.pk in self.counters and counter.starts_on == period_start_of_day(
            counter.period, self.day
        )


def period_start(period: str, moment: datetime) -> date:
    """The first day of the period of a moment."""
    return period_start_of_day(period, moment.astimezone(UTC).date())


def period_start_of_day(period: str, day: date) -> date:
    """The first day of the period of a day."""
    return day.replace(day=1) if period == SpendingCounter.Period.MONTH else day


def next_period(period: str, first: date) -> date:
    """The first day of the period after the one that begins with ``first``."""
    if period == SpendingCounter.Period.MONTH:
        return (first.replace(day=1) + timedelta(days=31)).replace(day=1)
    return first + timedelta(days=1)


def with_ancestors(session_id: UUID) -> list[UUID]:
    """The ids of the session and of all its ancestors: the sessions it was forked from or started by. One
    query.

    At most ``MAX_ANCESTORS + 1``, which means too many.
    """
    with connection.cursor() as cursor:
        id = session_id.hex if on_sqlite() else session_id
        cursor.execute(_ANCESTORS, [id, MAX_ANCESTORS + 1])
        return [as_uuid(id) for (id,) in cursor.fetchall()]
