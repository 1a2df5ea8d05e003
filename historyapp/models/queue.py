"""The queue that wakes workers if Redis is not configured."""

from typing import Self

from django.db import models
from django.utils import timezone


class QueuedMessageQuerySet(models.QuerySet["QueuedMessage"]):
    def waiting(self, queue: str) -> Self:
        """Messages for workers, oldest first."""
        return self.filter(queue=queue, problem="").order_by("id")


class QueuedMessage(models.Model):
    """A queued message. Its row is deleted when a worker takes it."""

    queue = models.CharField(max_length=200)
    payload = models.TextField()
    """The message as JSON, as written by Celery's transport."""
    problem = models.TextField(blank=True)
    """Why the message cannot be parsed. Such a message is kept and never delivered."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = QueuedMessageQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["queue", "problem", "id"], name="waiting_messages")]

    def __str__(self) -> str:
        return f"{self.queue} {self.pk}"
