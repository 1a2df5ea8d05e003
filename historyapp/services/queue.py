"""The queue in the database: adds messages, and takes each of them once."""

import logging
from datetime import timedelta

from django.utils import timezone

from historyapp.core.text import preview
from historyapp.models import QueuedMessage
from historyapp.models.sql import WAITING_MESSAGE, fetch_all
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

_UNREADABLE_KEPT_FOR = timedelta(days=7)


def put(queue: str, *payloads: str) -> None:
    """Adds messages at the end of a queue, in one commit."""
    with writing():
        QueuedMessage.objects.bulk_create(QueuedMessage(queue=queue, payload=payload) for payload in payloads)


def take(queue: str) -> str | None:
    """Removes the oldest message and returns its payload, or None if there is none.

    Reading and deleting are one transaction, so no two workers get the same message. An idle worker only
    reads: SQLite's write lock is taken only if there is a message.
    """
    if not fetch_all(WAITING_MESSAGE, [queue]):
        return None
    with writing():
        waiting = QueuedMessage.objects.waiting(queue)
        message = waiting.select_for_update(skip_locked=True).first()
        if message is None:
            return None
        message.delete()
        return message.payload


def store_unreadable(queue: str, payload: str, error: Exception) -> None:
    """Keeps an unreadable message and its error for a week. No worker takes the message again."""
    problem = preview(f"{type(error).__name__}: {error}")
    log.error("A message in the queue cannot be read and is set aside: %s", problem)
    with writing():
        unreadable = QueuedMessage.objects.exclude(problem="")
        unreadable.filter(created_at__lt=timezone.now() - _UNREADABLE_KEPT_FOR).delete()
        QueuedMessage.objects.create(queue=queue, payload=payload, problem=problem)


def purge(queue: str) -> int:
    """Deletes the waiting messages and returns how many there were."""
    with writing():
        deleted, _ = QueuedMessage.objects.waiting(queue).delete()
    return deleted


def size(queue: str) -> int:
    """The number of waiting messages."""
    return QueuedMessage.objects.waiting(queue).count()
