"""Health checks for load balancers and for ``playhead up``: alive is not yet ready."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse

from historyapp.models import QueuedMessage, Worker

log = logging.getLogger(__name__)

BROKER_SECONDS = 2
"""That Redis may take to answer."""


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Touches no database, so that a slow one does not get the process restarted."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """Whether requests can be served, part by part; 503 when the database cannot.

    Without broker or worker everything is served and compressions wait: 200, and the status is degraded.
    """
    database = _database()
    broker = _redis() if settings.REDIS_URL else _of_tables(database, _queue)
    parts = {"database": database, "broker": broker, "worker": _of_tables(database, _worker)}
    if database != "ok":
        return JsonResponse({"status": "unavailable", "parts": parts}, status=503)
    whole = all(state == "ok" for state in parts.values())
    return JsonResponse({"status": "ok" if whole else "degraded", "parts": parts})


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError as error:
        # The driver's message can hold the host and the user name: it belongs into the log only.
        log.error("The database does not answer: %s", error)
        return "unavailable"
    return "ok"


def _of_tables(database: str, state: Callable[[], str]) -> str:
    """What the database says of another part; unknown when it does not answer."""
    if database != "ok":
        return "unknown"
    try:
        return state()
    except DatabaseError as error:
        log.error("The database cannot tell of its queue or of workers: %s", error)
        return "unavailable"


def _queue() -> str:
    QueuedMessage.objects.exists()  # fails where the tables are older than this version
    return "ok"


def _redis() -> str:
    from redis import Redis, RedisError  # loaded only where there is one

    try:
        seconds = {"socket_connect_timeout": BROKER_SECONDS, "socket_timeout": BROKER_SECONDS}
        with Redis.from_url(settings.REDIS_URL, **seconds) as redis:
            redis.ping()
    except (RedisError, OSError) as error:
        log.error("The broker does not answer: %s", type(error).__name__)
        return "unavailable"
    return "ok"


def _worker() -> str:
    """Whether any worker has been heard of lately, on whatever machine."""
    return "ok" if Worker.objects.alive().exists() else "unavailable"
