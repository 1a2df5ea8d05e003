"""A worker obeys its provider's limits also while Redis does not respond."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache.backends.redis import RedisCache
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from historyapp import redis_values
from historyapp.services.compression import provider_limits
from historyapp.services.compression.provider_limits import (
    begin_pause,
    pause_of,
    provider_limiter,
    wait_for_provider,
)

REDIS = "redis://127.0.0.1:1/0"
"""Nothing listens there."""
MODEL = "gpt-5-mini"


@pytest.fixture(autouse=True)
def _without_redis(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.REDIS_URL = REDIS
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/hour"}
    monkeypatch.setattr(redis_values._Slow, "until", 0.0)
    monkeypatch.setattr(provider_limits, "_own_pauses", {})
    monkeypatch.setattr(provider_limits, "cache", RedisCache(REDIS, {}))
    provider_limiter.cache_clear()
    yield
    provider_limiter.cache_clear()


class Refused(Exception):
    """The call has to wait."""


def refuse(_: float) -> None:
    raise Refused


def test_a_pause_holds_in_its_process_while_redis_does_not_respond() -> None:
    begin_pause(MODEL, 20)
    assert 19 < pause_of(MODEL) <= 20
    assert pause_of("gpt-5") <= 0


def test_pauses_that_are_over_are_forgotten() -> None:
    begin_pause("gpt-5", 0)
    begin_pause(MODEL, 3600)
    assert list(provider_limits._own_pauses) == [MODEL]
    assert pause_of(MODEL) <= provider_limits.MAX_PAUSE


def test_a_rate_limit_holds_in_each_process_while_redis_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", refuse)
    for _ in range(2):
        wait_for_provider("openai", MODEL)
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL)


def test_calls_that_redis_has_allowed_count_when_it_no_longer_responds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    working = {REDIS: MovingWindowRateLimiter(storage_from_string("memory://"))}
    own = provider_limits.provider_limiter
    monkeypatch.setattr(
        provider_limits, "provider_limiter", lambda address: working.get(address) or own(address)
    )
    monkeypatch.setattr(time, "sleep", refuse)
    for _ in range(2):
        wait_for_provider("openai", MODEL)
    working.clear()
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL)
