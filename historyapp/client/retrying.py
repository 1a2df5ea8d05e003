"""Whether to send a request again, and when. Every write carries an ``Idempotency-Key``, so it may be."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

LONGEST_PAUSE = 60.0
"""In seconds. A server that wants to be left alone for longer is not asked again."""
_FIRST_PAUSE = 0.25
_MOST_DOUBLINGS = 10
_BUSY = (429, 503)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_HOPELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.DecodingError)

Outcome = httpx.Response | httpx.RequestError


def pause_before_retry(outcome: Outcome, attempt: int, *, repeatable: bool) -> float | None:
    """Seconds until the next attempt; None when the outcome is final.

    Args:
        attempt: how often the request has been sent, 1 after the first time.
        repeatable: whether it does no harm to carry the request out twice.
    """
    if isinstance(outcome, httpx.RequestError):
        again = not isinstance(outcome, _HOPELESS) and (repeatable or isinstance(outcome, _UNSENT))
        return _growing(attempt) if again else None
    if outcome.status_code in _BUSY:
        wanted = retry_after(outcome)
        if wanted is None:
            return _growing(attempt)
        return wanted if wanted <= LONGEST_PAUSE else None
    failed = outcome.status_code >= 500 and not _is_of_a_provider(outcome)
    return _growing(attempt) if failed and repeatable else None


def _is_of_a_provider(answer: httpx.Response) -> bool:
    """Playhead's own 502 says that a model's provider failed, and that asking it again did not help."""
    return answer.status_code == 502 and "problem+json" in answer.headers.get("Content-Type", "")


def retry_after(response: httpx.Response) -> float | None:
    """What the header of that name says, in seconds from now; None where it says nothing."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _growing(attempt: int) -> float:
    """Twice as long each time, with half of it left to chance so that many clients do not come at once."""
    pause: float = min(_FIRST_PAUSE * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS), LONGEST_PAUSE)
    return pause * random.uniform(0.5, 1.0)  # noqa: S311  no secret hangs on it
