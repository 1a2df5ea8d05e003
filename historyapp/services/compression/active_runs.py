"""Which runs are still active, for threads that wait for a model."""

import threading
import time
from uuid import UUID

from historyapp.models import CompressionRun
from historyapp.services.connections import unlimited_connection

CANCEL_CHECK_SECONDS = 0.5
"""A worker notices within twice this many seconds that its run was cancelled."""


class ActiveRuns:
    """Threads that wait for a model learn that their run was cancelled without a connection of their own."""

    def __init__(self) -> None:
        self._runs = set[UUID]()
        """The runs that threads of this process work on."""
        self._active = frozenset[UUID]()
        """Those that were active at the last check."""
        self._next_check = 0.0
        self._lock = threading.Lock()

    def contains(self, run: UUID) -> bool:
        """Whether the run was active within the last :data:`CANCEL_CHECK_SECONDS`. Until :meth:`forget`, each
        check includes it."""
        with self._lock:
            if run not in self._runs or time.monotonic() >= self._next_check:
                self._runs.add(run)
                active = CompressionRun.objects.active().filter(pk__in=self._runs)
                with unlimited_connection():
                    self._active = frozenset(active.values_list("pk", flat=True))
                self._next_check = time.monotonic() + CANCEL_CHECK_SECONDS
            return run in self._active

    def forget(self, run: UUID) -> None:
        """Ends the checks of a run."""
        with self._lock:
            self._runs.discard(run)


ACTIVE_RUNS = ActiveRuns()
