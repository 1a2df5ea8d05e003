"""How values are stored in Redis, and how long its answers are awaited.

Redis is often less protected than the database. So nothing in it is trusted: no code, no pickled object.
"""

from typing import Any

ANSWER_SECONDS = 2
"""The time limit for each response of Redis, in seconds. Without it, a Redis that hangs would hold threads
for ever."""
TIME_LIMITS: dict[str, Any] = {
    "socket_connect_timeout": ANSWER_SECONDS,
    "socket_timeout": ANSWER_SECONDS,
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
