"""Notifies other processes of changes through Redis. Without Redis they poll the database."""

import logging
import threading
import time
from collections.abc import Callable

from django.conf import settings

from historyapp.lag import open_redis
from historyapp.services.changes import on_change

log = logging.getLogger(__name__)

CHANNEL = "playhead:changes"
GATHER_SECONDS = 0.02
"""Changes within this many seconds are announced together."""
RETRY_SECONDS = 5.0
"""Seconds between two attempts after Redis failed. In the meantime the database is polled."""


def announce_changes() -> None:
    """Starts to announce the changes of this process, in a thread, so that requests do not wait for Redis."""
    if not settings.REDIS_URL:
        return
    changed = threading.Event()
    on_change(changed.set)
    threading.Thread(target=_announce, args=(changed,), name="announcements", daemon=True).start()


def listen(notify: Callable[[], None]) -> None:
    """Calls a function in another thread whenever another process has changed something."""
    if settings.REDIS_URL:
        threading.Thread(target=_listen, args=(notify,), name="announced changes", daemon=True).start()


def _announce(changed: threading.Event) -> None:
    from redis import RedisError

    while True:
        try:
            with open_redis() as redis:
                while changed.wait():
                    changed.clear()
                    redis.publish(CHANNEL, b"")
                    time.sleep(GATHER_SECONDS)
        except (RedisError, OSError) as error:
            _wait_after(error)


def _listen(notify: Callable[[], None]) -> None:
    from redis import RedisError

    while True:
        try:
            with open_redis() as redis, redis.pubsub(ignore_subscribe_messages=True) as channel:
                channel.subscribe(CHANNEL)
                while True:
                    if channel.get_message(timeout=60) is not None:
                        notify()
        except (RedisError, OSError) as error:
            _wait_after(error)


def _wait_after(error: Exception) -> None:
    log.warning("Changes are not announced: Redis does not respond (%s).", type(error).__name__)
    time.sleep(RETRY_SECONDS)
