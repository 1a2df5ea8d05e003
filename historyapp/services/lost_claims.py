"""Ends the claims of a worker that lives, also if the database is away just then.

A worker that loses its connection knows that it has stopped working. If it could not say so later, its work
would wait until the claim expires, as that of a killed worker does.
"""

import logging
import threading
import time
from collections.abc import Callable

from django.conf import settings
from django.db import connection

from historyapp.services.faults import UNREACHABLE
from historyapp.services.transactions import waiting_briefly

log = logging.getLogger(__name__)

MAX_WAIT = 1.0
"""The claims that end together wait at most this many seconds for other writers."""

Release = Callable[[], object]

_waiting: dict[Release, float] = {}
"""Claims of this process that have not ended, with the monotonic time at which they have expired."""
_lock = threading.Lock()


def end_claim(release: Release) -> None:
    """Calls ``release``; if the database cannot be used, :func:`end_waiting_claims` calls it again.

    Args:
        release: ends one worker's own claim, and nothing if it has expired and another worker has the work.
    """
    try:
        _end(release)
    except UNREACHABLE as error:
        log.warning("A claim ends later, because the database cannot be used: %s", error)
        with _lock:
            _waiting[release] = time.monotonic() + settings.PLAYHEAD_CLAIM_SECONDS


def end_waiting_claims() -> None:
    """Ends the claims that could not be ended before. The worker's clock calls it every second, so that all
    claims together wait only briefly for other writers.

    Raises:
        OperationalError, InterfaceError, ServerUnavailable: when the database still cannot be used.
    """
    with _lock:
        waiting = list(_waiting.items())
    failure: Exception | None = None
    until = time.monotonic() + MAX_WAIT
    for release, expires_at in waiting:
        now = time.monotonic()
        if failure is not None and now >= until:
            break
        try:
            if now < expires_at:
                with waiting_briefly(max(until - now, 0)):
                    _end(release)
        except UNREACHABLE as error:
            failure = error
        else:
            with _lock:
                _waiting.pop(release, None)
    if failure is not None:
        raise failure


def _end(release: Release) -> None:
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()  # the work may have ended because it broke
    release()
