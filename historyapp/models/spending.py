"""Caps on the money that a project spends on calls of providers' models."""

from datetime import UTC, date, datetime, timedelta

from django.db import models

from historyapp.models.projects import Project


class SpendingCap(models.Model):
    """The most that a project may spend in each day or month (UTC), and what the present one has spent."""

    class Period(models.TextChoices):
        DAY = "day", "day"
        MONTH = "month", "month"

    project = models.ForeignKey(Project, models.CASCADE, related_name="caps")
    period = models.CharField(max_length=5, choices=Period)
    limit = models.PositiveBigIntegerField()
    """In millionths of a dollar."""
    starts_on = models.DateField()
    """The first day of the period that ``spent`` belongs to."""
    spent = models.PositiveBigIntegerField(default=0)
    """In millionths of a dollar. A call under way counts with its estimate."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "period"), name="cap_once"),)

    def __str__(self) -> str:
        return f"${self.limit / 1_000_000:,.2f} a {self.period}"

    def begin_period(self, now: datetime) -> None:
        """Sets ``spent`` back when another period has begun. The caller saves it."""
        first = first_day(self.period, now)
        if first > self.starts_on:  # a clock that was set back starts no period twice
            self.starts_on, self.spent = first, 0

    @property
    def ends_at(self) -> datetime:
        """When the next period begins."""
        first = self.starts_on
        following = first + timedelta(days=1)
        if self.period == self.Period.MONTH:
            following = (first.replace(day=1) + timedelta(days=31)).replace(day=1)
        return datetime(following.year, following.month, following.day, tzinfo=UTC)

    @property
    def limit_dollars(self) -> str:
        """The limit as a form field holds it."""
        return f"{self.limit / 1_000_000:.6f}".rstrip("0").rstrip(".")


def first_day(period: str, now: datetime) -> date:
    """The first day of the period that a moment belongs to."""
    day = now.astimezone(UTC).date()
    return day.replace(day=1) if period == SpendingCap.Period.MONTH else day
