"""Small limits for tests of the server's parts."""

from typing import Any

from historyapp.front.limits import Limits

MB = 1 << 20


def small_limits(**changes: Any) -> Limits:
    values: dict[str, Any] = {
        "max_body": 32 * MB,
        "body_seconds": 30,
        "stall_seconds": 0.3,
        "min_rate": 4096,
        "queue_seconds": 5,
        "client_requests": 100,
        "client_calls": 100,
        "client_bytes": 64 * MB,
        "client_streams": 10,
        "client_connections": 100,
        "client_unread": 4 * MB,
        "all_unread": 16 * MB,
        "min_free_disk": 0,
    }
    return Limits(**{**values, **changes})
