"""How long work has waited for a worker. All queries use an index."""

import logging
from typing import TYPE_CHECKING, cast

from django.conf import settings
from django.utils import timezone

from historyapp.models import CompressionRun, QueuedMessage, Webhook
from historyapp.models.sql import WAITING_MESSAGE, fetch_all
from historyapp.redis_values import TIME_LIMITS, in_time

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger(__name__)

QUEUE = "playhead"


def open_redis() -> "Redis":
    """A connection to the broker, with a time limit for each response. The caller must close it."""
    from redis import Redis  # loaded only if Redis is used

    return Redis.from_url(settings.REDIS_URL, **TIME_LIMITS)


def waiting_messages() -> int | None:
    """The number of messages that no worker has taken; None if Redis does not respond."""
    if not settings.REDIS_URL:
        return QueuedMessage.objects.waiting(QUEUE).count()
    from redis import RedisError

    def length() -> int:
        with open_redis() as redis:
            return cast(int, redis.llen(QUEUE))

    try:
        return in_time(length)
    except (RedisError, OSError) as error:
        log.error("The broker does not respond: %s", type(error).__name__)
        return None


def has_messages() -> bool:
    """Whether a message waits in the database's queue. False with Redis, to which workers are connected."""
    return bool(fetch_all(WAITING_MESSAGE, [QUEUE]))


def oldest_message_age() -> float:
    """Seconds since the oldest message was added to the database's queue; 0 if the queue is empty."""
    oldest = QueuedMessage.objects.waiting(QUEUE).values_list("created_at", flat=True).first()
    return max(0.0, (timezone.now() - oldest).total_seconds()) if oldest else 0.0


def oldest_queued_run_age() -> float:
    """Seconds since the oldest run that no worker has started was requested; 0 if there is no such run."""
    queued = CompressionRun.objects.active().filter(state=CompressionRun.State.QUEUED).order_by("id")
    oldest = queued.values_list("created_at", flat=True).first()
    return max(0.0, (timezone.now() - oldest).total_seconds()) if oldest else 0.0


def longest_webhook_wait() -> float:
    """Seconds for which a webhook has been due while no worker worked on it; 0 if none waits."""
    now = timezone.now()
    since = Webhook.objects.waiting_since(now)
    return (now - since).total_seconds() if since else 0.0
