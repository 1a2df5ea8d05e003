"""A reader that follows the project's events while servers are killed, and the events that it received."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from bench.machinery import KEY
from historyapp.client import Playhead
from historyapp.core.errors import PlayheadError

Place = tuple[UUID, int]
"""Session and position of an entry."""


@dataclass
class Follower:
    """Follows the events in a thread of its own, with the Python client."""

    received: Counter[Place] = field(default_factory=Counter)
    """How many events announced each entry."""
    failed: str = ""
    """The error that ended the stream."""

    _client: Playhead | None = None

    def start(self, port: int) -> None:
        self._client = Playhead(f"http://127.0.0.1:{port}", KEY)
        threading.Thread(target=self._run, args=(self._client,), daemon=True).start()

    def stop(self) -> None:
        """Closes the client, so that the thread ends with its next request."""
        if self._client:
            self._client.close()

    def _run(self, client: Playhead) -> None:
        try:
            for event in client.follow_events(after="0-0"):
                if event.first_position is not None and event.position is not None:
                    positions = range(event.first_position, event.position + 1)
                    self.received.update((event.session, position) for position in positions)
        except PlayheadError as error:
            self.failed = f"{type(error).__name__}: {error}"
        except RuntimeError:
            return  # the client is closed

    def lost(self, expected: set[Place], seconds: float) -> int:
        """The number of entries that no event has announced. Waits for the last events."""
        end = time.monotonic() + seconds
        while (missing := expected - self.received.keys()) and not self.failed and time.monotonic() < end:
            time.sleep(0.05)
        return len(missing)

    def doubled(self) -> int:
        return sum(count > 1 for count in self.received.values())
