"""Health checks for load balancers and for ``playhead up``: alive is not yet ready."""

import logging

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse

log = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Touches no database, so that a slow one does not get the process restarted."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """Whether requests can be served, part by part; 503 when one part cannot."""
    parts = {"database": _database()}
    ready = all(state == "ok" for state in parts.values())
    body = {"status": "ok" if ready else "unavailable", "parts": parts}
    return JsonResponse(body, status=200 if ready else 503)


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
