"""Health checks for load balancers and for ``playhead up``."""

import logging
import time
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse

from historyapp import disk
from historyapp.lag import longest_webhook_wait, oldest_message_age, oldest_queued_run_age, open_redis
from historyapp.models import QueuedMessage, Worker
from historyapp.redis_values import in_time
from historyapp.services.faults import current_fault, record_fault
from historyapp.wire.problems import DatabaseUnreachable

log = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0
"""How long PostgreSQL may take to answer. Load balancers wait for a few seconds."""
SHARED_SECONDS = 10.0
"""Requests share a check for this time at most. Then the next one starts another with a new connection."""


class _Check:
    """The newest check of the database, in a thread of its own. Requests that arrive meanwhile share it."""

    lock = Lock()
    parts: "Future[dict[str, str]] | None" = None
    started_at = 0.0


def healthz(request: HttpRequest) -> HttpResponse:
    """Whether the process responds. It does not query the database: a slow database must not restart the
    process."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """The state of each part; 503 if the database is unavailable.

    Without a broker or worker, requests are served and compressions wait, so the response is 200 with the
    status "degraded". The status is also "degraded" if the disk is nearly full or work has waited too long.
    """
    stored = _stored_parts() if connection.vendor == "sqlite" else _stored_parts_in_time()
    parts = {
        "database": stored["database"],
        "broker": _redis() if settings.REDIS_URL else stored["queue"],
        "worker": stored["worker"],
        "disk": _disk(),
        "lag": stored["lag"],
    }
    if parts["database"] != "ok":
        return JsonResponse({"status": "unavailable", "parts": parts}, status=503)
    all_ok = all(state == "ok" for state in parts.values())
    return JsonResponse({"status": "ok" if all_ok else "degraded", "parts": parts})


def _stored_parts() -> dict[str, str]:
    """The states of the database and of the parts whose state is stored in it."""
    database = _database()
    parts = {
        "database": database,
        "worker": _table(database, Worker.objects.alive(), may_be_empty=False),
        "lag": _lag(database),
    }
    if not settings.REDIS_URL:
        parts["queue"] = _table(database, QueuedMessage.objects.all(), may_be_empty=True)
    return parts


def _stored_parts_in_time() -> dict[str, str]:
    """The same, read with a new connection, because a server that is stopped or cut off may never answer."""
    with _Check.lock:
        now = time.monotonic()
        if _Check.parts is None or _Check.parts.done() or now > _Check.started_at + SHARED_SECONDS:
            _Check.parts, _Check.started_at = Future(), now
            Thread(target=_check, args=(_Check.parts,), name="readyz", daemon=True).start()
        parts = _Check.parts
    try:
        return parts.result(ANSWER_SECONDS)
    except TimeoutError:
        log.error("The database has not answered for %.0f seconds", ANSWER_SECONDS)
        unknown = dict.fromkeys(("queue", "worker", "lag"), "unknown")
        return {"database": DatabaseUnreachable.code, **unknown}


def _check(parts: "Future[dict[str, str]]") -> None:
    try:
        parts.set_result(_stored_parts())
    except BaseException as error:  # noqa: BLE001 raised again in the threads that wait
        parts.set_exception(error)
    finally:
        connection.close()


def _database() -> str:
    try:
        _query()
    except (DatabaseError, InterfaceError, UnicodeDecodeError) as error:
        # Only logged: the driver's message can contain the host and the user name.
        log.error("The database does not respond: %s", error)
        fault = record_fault(error)
        return fault.code if fault else "unavailable"
    fault = current_fault()
    return fault.code if fault else "ok"


def _query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def _table(database: str, rows: QuerySet[Any], *, may_be_empty: bool) -> str:
    """The state of a part, from its rows in the database; "unknown" if the database is unavailable."""
    if database != "ok":
        return "unknown"
    try:
        has_rows = rows.exists()  # fails if the tables are older than this version
    except DatabaseError as error:
        log.error("The state of the queue or the workers cannot be read: %s", error)
        return "unavailable"
    return "ok" if has_rows or may_be_empty else "unavailable"


def _disk() -> str:
    """Whether the disk of the data folder has at least ``PLAYHEAD_DISK_ALARM`` of free space."""
    try:
        free = disk.free_bytes()
    except OSError as error:
        log.error("The free disk space cannot be read: %s", error.strerror)
        return "unknown"
    return "ok" if free >= settings.PLAYHEAD_DISK_ALARM else "low"


def _lag(database: str) -> str:
    """Whether a message, a run or a webhook has waited for a worker longer than ``PLAYHEAD_LAG_ALARM``."""
    if database != "ok":
        return "unknown"
    try:
        waited = max(oldest_message_age(), oldest_queued_run_age(), longest_webhook_wait())
    except DatabaseError as error:
        log.error("The age of waiting work cannot be read: %s", error)
        return "unknown"
    return "ok" if waited <= settings.PLAYHEAD_LAG_ALARM else "late"


def _redis() -> str:
    from redis import RedisError  # loaded only if Redis is used

    def ping() -> None:
        with open_redis() as redis:
            redis.ping()

    try:
        in_time(ping)
    except (RedisError, OSError) as error:
        log.error("The broker does not respond: %s", type(error).__name__)
        return "unavailable"
    return "ok"
