"""How many passwords each address has sent, so that other addresses get the thread for passwords first."""

import threading
import time

SECONDS = 300.0
"""An address without an attempt for this time counts as new."""
MAX_ADDRESSES = 20_000


class PasswordAttempts:
    """Counts attempts to sign in with a password by address. May be used in any thread."""

    def __init__(self) -> None:
        self._attempts: dict[bytes, tuple[int, float]] = {}
        """The number of attempts, and the monotonic time at which they are forgotten. The address whose last
        attempt is oldest comes first."""
        self._lock = threading.Lock()

    def number(self, address: bytes) -> int:
        """The attempts from an address. 0 if the last one was more than five minutes ago."""
        number, end = self._attempts.get(address, (0, 0.0))
        return number if end > time.monotonic() else 0

    def add(self, address: bytes) -> None:
        """Counts an attempt. It counts when it arrives, whether its password will be checked or not."""
        with self._lock:
            number = self.number(address) + 1
            self._attempts.pop(address, None)
            if len(self._attempts) >= MAX_ADDRESSES:
                del self._attempts[next(iter(self._attempts))]
            self._attempts[address] = number, time.monotonic() + SECONDS
