"""A worker obeys its provider's limits also while Redis does not respond."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.core.cache.backends.redis import RedisCache
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from historyapp import redis_values
from historyapp.services.compression import provider_limits
from historyapp.services.compression.provider_limits import (
    allowed_calls,
    begin_pause,
    note_answer,
    pause_of,
    provider_limiter,
    wait_for_provider,
)

REDIS = "redis://127.0.0.1:1/0"
"""Nothing listens there."""
MODEL = "gpt-5-mini"
PROJECT, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture(autouse=True)
def _without_redis(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.REDIS_URL = REDIS
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/hour"}
    monkeypatch.setattr(redis_values._Slow, "until", 0.0)
    monkeypatch.setattr(provider_limits, "_own_pauses", {})
    monkeypatch.setattr(provider_limits, "_answered", {})
    monkeypatch.setattr(provider_limits, "cache", RedisCache(REDIS, {}))
    provider_limiter.cache_clear()
    yield
    provider_limiter.cache_clear()


class Refused(Exception):
    """The call has to wait."""


def refuse(_: float) -> None:
    raise Refused


def test_a_pause_holds_in_its_process_while_redis_does_not_respond() -> None:
    begin_pause(MODEL, PROJECT, 20)
    assert 19 < pause_of(MODEL, PROJECT) <= 20
    assert pause_of("gpt-5", PROJECT) <= 0


def test_a_pause_of_one_project_leaves_others_a_call_until_the_provider_answers_it() -> None:
    begin_pause(MODEL, PROJECT, 20)
    assert (allowed_calls(MODEL, PROJECT, 8), allowed_calls(MODEL, OTHER, 8)) == (0, 1)
    assert (pause_of(MODEL, OTHER) <= 0, allowed_calls("gpt-5", OTHER, 8)) == (True, 8)
    note_answer(MODEL, OTHER)
    begin_pause(MODEL, PROJECT, 20)
    assert (allowed_calls(MODEL, PROJECT, 8), allowed_calls(MODEL, OTHER, 8)) == (0, 8)
    begin_pause(MODEL, OTHER, 20)
    assert allowed_calls(MODEL, OTHER, 8) == 0


def test_an_answer_before_a_pause_does_not_show_that_a_project_is_not_limited() -> None:
    note_answer(MODEL, OTHER)
    begin_pause(MODEL, PROJECT, 20)
    assert allowed_calls(MODEL, OTHER, 8) == 1


def test_pauses_that_are_over_are_forgotten() -> None:
    begin_pause("gpt-5", PROJECT, 0)
    begin_pause(MODEL, PROJECT, 3600)
    assert not any("gpt-5:" in key for key in provider_limits._own_pauses)
    assert pause_of(MODEL, PROJECT) <= provider_limits.MAX_PAUSE


def test_a_rate_limit_holds_in_each_process_while_redis_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", refuse)
    for _ in range(2):
        wait_for_provider("openai", MODEL, PROJECT)
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL, PROJECT)


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
        wait_for_provider("openai", MODEL, PROJECT)
    working.clear()
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL, PROJECT)


def test_one_project_leaves_others_a_quarter_of_a_rate_limit(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single call waited a minute while long runs of another project took the whole limit."""
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "8/hour"}
    monkeypatch.setattr(time, "sleep", refuse)
    for _ in range(6):
        wait_for_provider("openai", MODEL, PROJECT)
    for _ in range(2):
        with pytest.raises(Refused):
            wait_for_provider("openai", MODEL, PROJECT)
        wait_for_provider("openai", MODEL, OTHER)
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL, OTHER)


def test_calls_that_begin_at_once_leave_others_their_quarter(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them pass the test before the first one is counted."""
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "8/hour"}
    monkeypatch.setattr(time, "sleep", refuse)
    monkeypatch.setattr(MovingWindowRateLimiter, "test", lambda *_: True)
    for _ in range(6):
        wait_for_provider("openai", MODEL, PROJECT)
    for _ in range(4):
        with pytest.raises(Refused):
            wait_for_provider("openai", MODEL, PROJECT)
    for _ in range(2):
        wait_for_provider("openai", MODEL, OTHER)


def test_a_wait_for_a_rate_limit_ends_with_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    for _ in range(2):
        wait_for_provider("openai", MODEL, PROJECT)
    with pytest.raises(Refused):
        wait_for_provider("openai", MODEL, PROJECT, lambda: refuse(0))
    assert len(waits) == 1
