"""Running workers. Each updates its row every few seconds."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.utils import timezone

BEAT_SECONDS = 10
"""The interval between two updates of a worker's row."""
SILENCE = timedelta(seconds=60)
"""A worker whose row is older counts as dead."""


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> Self:
        # A time in the future belongs to a worker that died before the clock was set back.
        now = timezone.now()
        return self.filter(seen_at__range=(now - SILENCE, now + SILENCE))


class Worker(models.Model):
    """One worker process."""

    id = models.UUIDField(primary_key=True, editable=False)
    host = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)

    objects = WorkerQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.host} since {self.started_at:%Y-%m-%d %H:%M}"
