"""The queue that wakes workers when there is no Redis."""

from typing import Self

from django.db import models
from django.utils import timezone


class QueuedMessageQuerySet(models.QuerySet["QueuedMessage"]):
    def waiting(self, queue: str) -> Self:
        """Messages that a worker may take, oldest first."""
        return self.filter(queue=queue, problem="").order_by("id")


class QueuedMessage(models.Model):
    """One message, until a worker takes it. The row is then deleted."""

    queue = models.CharField(max_length=200)
    payload = models.TextField()
    """The message in JSON, as Celery's transport writes it."""
    problem = models.TextField(blank=True)
    """Why the message cannot be read. It is then kept and never delivered."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = QueuedMessageQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["queue", "problem", "id"], name="waiting_messages")]

    def __str__(self) -> str:
        return f"{self.queue} {self.pk}"
