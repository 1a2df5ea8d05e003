"""Limits the model calls of all workers: pauses that providers ask for, and the rate limits of our settings.

With Redis all workers share them. Each process keeps its own too, for the time in which Redis does not
respond.
"""

import functools
import logging
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

from django.conf import settings
from django.core.cache import cache
from limits import RateLimitItem, parse
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from historyapp.redis_values import RETRY_SECONDS, TIME_LIMITS, in_time
from historyapp.services.model_call_threads import sleep

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PAUSE = 60
"""The maximum number of seconds that all workers do not call a model after its provider asked one of them to
wait."""
_OWN = ""
"""The address of the limiter of this process, in memory."""
_own_pauses: dict[str, float] = {}
"""The monotonic times at which the pauses end that providers asked this process for."""


def begin_pause(model: str, seconds: float) -> None:
    """Makes all workers wait before they call the model again, at most :data:`MAX_PAUSE` seconds."""
    seconds, now = min(seconds, MAX_PAUSE), time.monotonic()
    for other, end in list(_own_pauses.items()):
        if end <= now:
            _own_pauses.pop(other, None)
    _own_pauses[model] = now + seconds
    if settings.REDIS_URL:
        until = time.time() + seconds
        _from_redis(lambda: cache.set(_pause_key(model), until, timeout=MAX_PAUSE), None)


def pause_of(model: str) -> float:
    """The seconds until this worker may call the model again; 0 or less: now."""
    own = _own_pauses.get(model, 0.0) - time.monotonic()
    if not settings.REDIS_URL:
        return own
    until: float = _from_redis(lambda: cache.get(_pause_key(model)), None) or 0
    shared = until - time.time()
    return max(own, shared) if shared <= MAX_PAUSE else own  # a longer one: the clock was set back


def _pause_key(model: str) -> str:
    return f"playhead:pause:{quote(model)}"


def wait_for_provider(provider: str, model: str) -> None:
    """Waits until the model's pause is over, then for the provider's rate limit in our settings, if any."""
    pause = pause_of(model)
    if pause > 0:
        sleep(pause)
    limit = settings.PLAYHEAD_RATE_LIMITS.get(provider)
    if limit is None:
        return
    rate = parse(limit)
    while (wait := _seconds_to_wait(rate, provider)) > 0:
        time.sleep(wait)


def _seconds_to_wait(rate: RateLimitItem, provider: str) -> float:
    """Counts a model call, if the rate limit allows one now. Otherwise returns the seconds until the next
    attempt."""
    if settings.REDIS_URL:
        ask: Callable[[], float | None] = lambda: _ask(  # noqa: E731
            provider_limiter(settings.REDIS_URL), rate, provider
        )
        shared = _from_redis(ask, None)
        if shared is not None:
            if not shared:
                provider_limiter(_OWN).hit(rate, "playhead", provider)
            return shared
    return _ask(provider_limiter(_OWN), rate, provider)


def _ask(limiter: MovingWindowRateLimiter, rate: RateLimitItem, provider: str) -> float:
    if limiter.hit(rate, "playhead", provider):
        return 0.0
    wait = limiter.get_window_stats(rate, "playhead", provider).reset_time - time.time()
    if wait > rate.get_expiry() + 1:  # the clock was set back
        limiter.clear(rate, "playhead", provider)
    return max(0.05, min(wait, 1))


class _Warned:
    until = 0.0
    """The monotonic time until which no further warning is logged."""


def _from_redis(access: Callable[[], T], otherwise: T) -> T:
    """The result of a short access to Redis. If it fails, or takes too long in all: ``otherwise``."""
    from redis import RedisError  # loaded only if Redis is used

    try:
        return in_time(access, waits=True)
    except (RedisError, OSError) as error:
        if time.monotonic() >= _Warned.until:
            _Warned.until = time.monotonic() + RETRY_SECONDS
            log.warning("Redis cannot be reached; this worker limits model calls on its own: %s", error)
        return otherwise


@functools.cache
def provider_limiter(address: str) -> MovingWindowRateLimiter:
    """The rate limiter in the Redis at an address, which limits all workers together, or in this process."""
    if address == _OWN:
        return MovingWindowRateLimiter(storage_from_string("memory://"))
    return MovingWindowRateLimiter(storage_from_string(address, **TIME_LIMITS))
