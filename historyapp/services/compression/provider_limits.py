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
from uuid import UUID

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
"""The maximum number of seconds that all workers do not call a model for a project after its provider asked
one of them to wait. Other projects find out by one call of each run whether the provider limits them too."""
_OWN = ""
"""The address of the limiter of this process, in memory."""
_own_pauses: dict[str, float] = {}
"""The monotonic times at which the pauses end that providers asked this process for, by their keys."""
_answered: dict[str, float] = {}
"""The monotonic times until which pauses of other projects do not apply, because the provider has answered a
call of the project during one."""


def begin_pause(model: str, project: UUID, seconds: float) -> None:
    """Makes all workers wait before they call the model again for the project, at most :data:`MAX_PAUSE`
    seconds."""
    seconds, now = min(seconds, MAX_PAUSE), time.monotonic()
    for ends in (_own_pauses, _answered):
        for other, end in list(ends.items()):
            if end <= now:
                ends.pop(other, None)
    _answered.pop(_pause_key(model, project), None)
    for key in (_pause_key(model), _pause_key(model, project)):
        _own_pauses[key] = now + seconds
        if settings.REDIS_URL:
            set_shared = functools.partial(cache.set, key, time.time() + seconds, timeout=MAX_PAUSE)
            _from_redis(set_shared, None)


def note_answer(model: str, project: UUID) -> None:
    """Ends the effect of other projects' pauses, because the provider has answered a call of this one."""
    if _pause(_pause_key(model)) > 0:
        _answered[_pause_key(model, project)] = time.monotonic() + MAX_PAUSE


def pause_of(model: str, project: UUID) -> float:
    """The seconds until this worker may call the model again for the project; 0 or less: now."""
    return _pause(_pause_key(model, project))


def allowed_calls(model: str, project: UUID, limit: int) -> int:
    """How many calls a run of the project may make at the same time, at most ``limit``: none during a pause
    of the project, and during one of others a single one until the provider has answered it."""
    if pause_of(model, project) > 0:
        return 0
    has_answered = _answered.get(_pause_key(model, project), 0.0) > time.monotonic()
    return limit if has_answered or _pause(_pause_key(model)) <= 0 else 1


def _pause(key: str) -> float:
    own = _own_pauses.get(key, 0.0) - time.monotonic()
    if not settings.REDIS_URL:
        return own
    until: float = _from_redis(lambda: cache.get(key), None) or 0
    shared = until - time.time()
    return max(own, shared) if shared <= MAX_PAUSE else own  # a longer one: the clock was set back


def _pause_key(model: str, project: UUID | None = None) -> str:
    """``project``: None for the pause of any project."""
    return f"playhead:pause:{quote(model)}" + (f":{project}" if project else "")


def wait_for_provider(
    provider: str, model: str, project: UUID, check: Callable[[], None] = lambda: None
) -> None:
    """Waits until the model's pause for the project is over, then for the provider's rate limit in our
    settings, if any.

    Args:
        check: called after each wait for the rate limit. What it raises ends the wait.
    """
    pause = pause_of(model, project)
    if pause > 0:
        sleep(pause)
    limit = settings.PLAYHEAD_RATE_LIMITS.get(provider)
    if limit is None:
        return
    rate = parse(limit)
    while (wait := _seconds_to_wait(rate, provider, project)) > 0:
        time.sleep(wait)
        check()


def _seconds_to_wait(rate: RateLimitItem, provider: str, project: UUID) -> float:
    """Counts a model call, if the rate limit allows one now. Otherwise returns the seconds until the next
    attempt."""
    windows = _windows(rate, provider, project)
    if settings.REDIS_URL:
        ask: Callable[[], float | None] = lambda: _ask(provider_limiter(settings.REDIS_URL), windows)  # noqa: E731
        shared = _from_redis(ask, None)
        if shared is not None:
            if not shared:
                _hit(provider_limiter(_OWN), windows)
            return shared
    return _ask(provider_limiter(_OWN), windows)


_Windows = tuple[tuple[RateLimitItem, tuple[str, ...]], ...]
"""Rate limits, each with the names of what it counts."""


def _windows(rate: RateLimitItem, provider: str, project: UUID) -> _Windows:
    """The limit of all projects, and that of one: three quarters of it. So a call of another project need not
    wait until the calls of a long run are old enough."""
    share = type(rate)(rate.amount - rate.amount // 4, rate.multiples)
    return (rate, ("playhead", provider)), (share, ("playhead", provider, str(project)))


def _ask(limiter: MovingWindowRateLimiter, windows: _Windows) -> float:
    full = [(rate, names) for rate, names in windows if not limiter.test(rate, *names)]
    if not full and _hit(limiter, windows):
        return 0.0
    wait = 0.0
    for rate, names in full:
        seconds = limiter.get_window_stats(rate, *names).reset_time - time.time()
        if seconds > rate.get_expiry() + 1:  # the clock was set back
            limiter.clear(rate, *names)
        wait = max(wait, seconds)
    return max(0.05, min(wait, 1))


def _hit(limiter: MovingWindowRateLimiter, windows: _Windows) -> bool:
    """Counts a call. False if other calls have taken the last place of the project, or of all projects,
    meanwhile. The project's is taken first: a call that gets none of all projects then costs only its own
    project a place."""
    return all(limiter.hit(rate, *names) for rate, names in reversed(windows))


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
