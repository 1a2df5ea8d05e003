"""Decides whether and when to retry a request. Writes can be retried: each has an ``Idempotency-Key``."""

import logging
import math
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from historyapp.client.api_call import ApiCall

log = logging.getLogger("historyapp.client")
MAX_PAUSE = 5.0
"""Seconds between two attempts. A restart takes a few seconds, so a longer pause gains nothing."""
QUICK_ATTEMPTS = 3
"""The number of attempts when the client does not wait for the server to come back."""
_FIRST_PAUSE = 0.25
_MAX_DOUBLINGS = 10
_BUSY = (429, 503)
_OUTAGE = (502, 503, 504)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_FATAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.DecodingError)

Outcome = httpx.Response | httpx.RequestError


def is_outage(outcome: Outcome) -> bool:
    """Whether the server cannot be reached: no connection, no complete response in time, or 502, 503, 504."""
    if isinstance(outcome, httpx.RequestError):
        return not isinstance(outcome, _FATAL)
    return outcome.status_code in _OUTAGE and not _is_provider_failure(outcome)


def pause_before_retry(outcome: Outcome, attempt: int, *, repeatable: bool) -> float | None:
    """Seconds until the next attempt; None if the outcome is final.

    Args:
        attempt: the number of attempts so far.
        repeatable: whether the server may carry the request out twice.
    """
    if isinstance(outcome, httpx.RequestError):
        should_retry = is_outage(outcome) and (repeatable or isinstance(outcome, _UNSENT))
        return growing_pause(attempt) if should_retry else None
    requested = retry_after(outcome)
    # 409: an equal request with the same Idempotency-Key is still running.
    if outcome.status_code in _BUSY or (outcome.status_code == 409 and requested is not None):
        return growing_pause(attempt) if requested is None else requested
    failed = outcome.status_code >= 500 and not _is_provider_failure(outcome)
    if not failed or not repeatable or (attempt >= QUICK_ATTEMPTS and not is_outage(outcome)):
        return None
    return growing_pause(attempt)


def describe_outcome(outcome: Outcome) -> str:
    """A short description of an outcome."""
    if isinstance(outcome, httpx.Response):
        return f"status {outcome.status_code}"
    return f"{type(outcome).__name__} {outcome}".strip()


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """The limits of one API call with all its attempts."""

    seconds: float
    attempts: int | None = None
    """The maximum number of attempts. None: limited by time only."""


class Attempts:
    """The attempts of one request: how long the next attempt may take, and whether there is one.

    Args:
        timeout: seconds that one attempt may take.
    """

    def __init__(self, api_call: ApiCall[Any], timeout: float, retry_limit: RetryLimit) -> None:
        self.count = 0
        self.started = time.monotonic()
        self._end = self.started + retry_limit.seconds
        self._api_call, self._timeout, self._max_attempts = (
            api_call,
            timeout,
            retry_limit.attempts or math.inf,
        )

    @property
    def limit(self) -> float:
        """Seconds that the next attempt may take. A model call has more time until the model responds."""
        if self._api_call.silence is not None:
            return self._api_call.silence
        return max(0.001, min(self._timeout, self._end - time.monotonic()))

    def pause_after(self, outcome: Outcome) -> float | None:
        """Seconds until the next attempt; None if the outcome is final."""
        self.count += 1
        api_call = self._api_call
        pause = pause_before_retry(outcome, self.count, repeatable=api_call.repeatable)
        if pause is None or pause >= self._end - time.monotonic() or self.count >= self._max_attempts:
            return None
        log.warning(
            "%s %s: %s; retrying in %.2f s", api_call.method, api_call.path, describe_outcome(outcome), pause
        )
        return pause


def _is_provider_failure(response: httpx.Response) -> bool:
    """Whether this is Playhead's own 502: a provider failed, and the server's retries did not help."""
    return response.status_code == 502 and "problem+json" in response.headers.get("Content-Type", "")


def retry_after(response: httpx.Response) -> float | None:
    """The header ``Retry-After`` in seconds from now, or None if it is missing or invalid."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def growing_pause(attempt: int) -> float:
    """A pause that doubles with each attempt. A random part makes clients retry at different times."""
    pause: float = min(_FIRST_PAUSE * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), MAX_PAUSE)
    return pause * random.uniform(0.5, 1.0)  # noqa: S311  no secret depends on it
