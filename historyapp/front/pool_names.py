"""Which pool of threads serves a request."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from historyapp.services.devices import known_device

CALLS = "calls"
"""The pool of model calls, which another process carries out, see :mod:`historyapp.front.model_calls`."""
LONG = (CALLS, "transfers")
"""Pools of long requests. A lower limit applies to how many of them a client may have open."""
SHORT = ("reads", "writes")
CHECKS = "checks"
"""The pool of health checks, which have limits of their own."""
LARGE_REQUESTS = "large requests"
"""The pool of requests that other processes carry out, see :mod:`historyapp.front.large_requests`."""
PASSWORDS, KNOWN_DEVICES = "passwords", "passwords of known devices"


def pool_name(method: str, path: str, cookies: bytes = b"", length: int = 0) -> str:
    """The pool that serves a request. Short requests never wait for long ones.

    Args:
        cookies: the header ``Cookie``.
        length: the length of the body in bytes.
    """
    name = _pool_of(method, path, cookies)
    return LARGE_REQUESTS if length > settings.PLAYHEAD_LARGE_REQUEST and name in SHORT else name


def _pool_of(method: str, path: str, cookies: bytes) -> str:
    if method == "POST" and path.startswith("/api/") and path.endswith("/calls"):
        return CALLS
    if path.endswith("/export") or "/exports/" in path:
        return "transfers"
    if method == "POST" and path.removeprefix("/api/v1") in ("/imports", "/exports"):
        return "transfers"
    if method == "POST" and path.removeprefix("/api/v1").startswith("/bulk"):
        return "reads"  # estimating the cost of 500 compressions takes long, and writes few rows
    if path.startswith("/api/") and path.endswith("/contexts"):
        return "reads"  # a context of a long session takes many seconds, and writes one row
    if path == "/readyz":
        return CHECKS
    if method == "POST" and (path == "/sign-in" or path.startswith("/admin/")):
        return KNOWN_DEVICES if known_device(cookies) else PASSWORDS
    return "reads" if method in ("GET", "HEAD", "OPTIONS") else "writes"


def can_move(request: Mapping[str, Any]) -> bool:
    """Whether a short request can start again in another process. The web process sends streams of events.

    Args:
        request: the WSGI environment.
    """
    path: str = request["PATH_INFO"]
    return not path.endswith(("/events", "/stream"))
