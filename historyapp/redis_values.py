"""The format of values in Redis, and the time limits for its responses.

Redis is often less protected than the database, so its values are not trusted: nothing is unpickled.
"""

from typing import Any

RESPONSE_SECONDS = 2
"""The time limit for each response of Redis, in seconds. Without it, a Redis that hangs would block threads
forever."""
TIME_LIMITS: dict[str, Any] = {
    "socket_connect_timeout": RESPONSE_SECONDS,
    "socket_timeout": RESPONSE_SECONDS,
}


class NumberSerializer:
    """Stores numbers as text. Django's own serializer runs the code in a stored pickle."""

    def dumps(self, value: float) -> bytes:
        return repr(float(value)).encode()

    def loads(self, stored: bytes) -> float:
        """The number; 0 for anything else."""
        try:
            return float(stored)
        except ValueError:
            return 0.0
