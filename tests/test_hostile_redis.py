"""Redis is full, hangs, or holds what an attacker has written: nothing runs, waits or is forgotten."""

import bz2
import os
import pickle
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from django.contrib.auth.models import User
from django.core.cache.backends.redis import RedisCache
from django.test import Client
from kombu import Connection
from kombu.message import Message
from pytest_django import Settings

from dashboard.forms.password import PER_NAME, reset_failures, shared_limiter
from historyapp import enqueue, health, lag, redis_values
from historyapp.celery import app
from historyapp.llm.errors import LimitReached
from historyapp.redis_values import TIME_LIMITS
from historyapp.services.compression import provider_limits
from historyapp.services.compression.summarise import MeteredModel
from historyapp.services.reservations import Reservation
from historyapp.services.spending import Payer
from tests.redis import Redis, dripping_server, redis_server, silent_server

OPTIONS = {"serializer": "historyapp.redis_values.NumberSerializer", **TIME_LIMITS}
PROJECT = UUID(int=1)


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with redis_server() as address:
        yield address


@pytest.fixture
def use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], RedisCache]]:
    """Makes this process use a Redis, and gives the cache in it, as the settings define it."""

    def use(url: str) -> RedisCache:
        settings.REDIS_URL = url
        cache = RedisCache(url, {"OPTIONS": OPTIONS})
        monkeypatch.setattr(provider_limits, "cache", cache)
        return cache

    shared_limiter.cache_clear()
    provider_limits.provider_limiter.cache_clear()
    monkeypatch.setattr(redis_values._Slow, "until", 0.0)
    yield use
    settings.REDIS_URL = ""
    shared_limiter.cache_clear()
    provider_limits.provider_limiter.cache_clear()
    provider_limits._own_pauses.clear()
    reset_failures()


class Exploit:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("stored", [b"nan", b"-inf", b"9" * 5000, b"text", b"\xff\x00", b"", b"1e999"])
def test_a_hostile_pause_value_delays_no_call_beyond_the_limit(
    stored: bytes, server: Redis, use: Callable[[str], RedisCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    cache = use(server.url)
    redis.Redis(port=server.port).set(
        cache.make_and_validate_key(f"playhead:pause:gpt-5-mini:{PROJECT}"), stored
    )
    provider_limits.wait_for_provider("openai", "gpt-5-mini", PROJECT)
    assert sum(slept) <= provider_limits.MAX_PAUSE


def test_a_pickle_in_redis_is_not_loaded(server: Redis, tmp_path: Path) -> None:
    """In a process of its own, which reads the settings that the server uses."""
    client, key = redis.Redis(port=server.port), ":1:playhead:pause:openai"
    client.set(key, pickle.dumps(Exploit(tmp_path / "ran")))
    read = (
        "from django.core.cache import cache\n"
        "print(cache.get('playhead:pause:openai'))\n"
        "cache.set('playhead:pause:openai', 12.5)\n"
        "print(cache.get('playhead:pause:openai'))"
    )
    environment = {**os.environ, "REDIS_URL": server.url, "DJANGO_SETTINGS_MODULE": "historyapp.settings"}
    command = [sys.executable, "-c", read]
    ran = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    assert ran.stdout.split() == ["0.0", "12.5"]
    assert not (tmp_path / "ran").exists()


def test_a_redis_that_hangs_delays_a_paid_call_by_seconds_only(
    use: Callable[[str], RedisCache], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIME_LIMITS, "socket_timeout", 0.2)
    monkeypatch.setitem(OPTIONS, "socket_timeout", 0.2)
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/second"}
    with silent_server() as url:
        use(url)
        started = time.monotonic()
        provider_limits.wait_for_provider("openai", "gpt-5-mini", PROJECT)
        assert time.monotonic() - started < 2


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["full", "hanging"])
def test_failed_passwords_are_counted_without_redis(
    state: str, server: Redis, use: Callable[[str], RedisCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIME_LIMITS, "socket_timeout", 0.2)
    User.objects.create_user("alice", password="correct horse battery")
    full = redis.Redis(port=server.port)
    with silent_server() as silent:
        use(server.url if state == "full" else silent)
        full.config_set("maxmemory", 1)
        try:
            statuses = [_attempt("wrong") for _ in range(PER_NAME)]
            assert statuses == [422] * PER_NAME
            assert _attempt("correct horse battery") == 429
        finally:
            full.config_set("maxmemory", 0)


def _attempt(password: str) -> int:
    form = {"username": "alice", "password": password}
    return int(Client(REMOTE_ADDR="10.0.0.7").post("/sign-in", form).status_code)


def test_a_redis_that_hangs_blocks_one_thread_at_a_time(
    use: Callable[[str], RedisCache], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(enqueue._Redis, "next_attempt", 0.0)
    options = {"socket_timeout": 2, "socket_connect_timeout": 2}
    with silent_server() as url:
        use(url)
        connection = Connection(url, transport_options=options)
        monkeypatch.setattr(
            "historyapp.celery.app.send_task",
            lambda *arguments: connection.SimpleQueue("playhead").put(arguments, retry=False),
        )
        times: list[float] = []

        def wake() -> None:
            started = time.monotonic()
            enqueue.wake(uuid4())
            times.append(time.monotonic() - started)

        threads = [threading.Thread(target=wake) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wake()
    assert sum(seconds > 1.5 for seconds in times) == 1, times
    assert times[-1] < 0.1, "Redis is left alone for a while"
    assert caplog.text.count("within a second") == 7


@pytest.mark.django_db
@pytest.mark.parametrize("question", ["ping", "length", "message", "password"])
def test_a_redis_that_answers_byte_by_byte_takes_a_bounded_time(
    question: str, use: Callable[[str], RedisCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_values, "RESPONSE_SECONDS", 0.5)
    monkeypatch.setattr(enqueue._Redis, "next_attempt", 0.0)
    User.objects.create_user("alice", password="correct horse battery")
    with dripping_server() as url:
        use(url)
        connection = Connection(url, transport_options={"socket_timeout": 2})
        monkeypatch.setattr(
            "historyapp.celery.app.send_task",
            lambda *arguments: connection.SimpleQueue("playhead").put(arguments, retry=False),
        )
        questions: dict[str, Callable[[], object]] = {
            "ping": health._redis,
            "length": lag.waiting_messages,
            "message": lambda: enqueue.wake(uuid4()),
            "password": lambda: _attempt("wrong"),
        }
        expected = {"ping": "unavailable", "length": None, "message": None, "password": 422}
        started = time.monotonic()
        assert questions[question]() == expected[question]
        assert time.monotonic() - started < 5
        started = time.monotonic()
        for _ in range(3):
            assert questions[question]() == expected[question]
        assert time.monotonic() - started < 3, "Redis is left alone for a while"
    if question == "password":
        assert [_attempt("wrong") for _ in range(PER_NAME)][-1] == 429, "this process has counted them"


def test_few_threads_wait_for_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_values, "RESPONSE_SECONDS", 0.05)
    monkeypatch.setattr(redis_values, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(redis_values, "_free", threading.BoundedSemaphore(redis_values.MAX_THREADS))
    release = threading.Event()
    begun = list[int]()

    def hang() -> None:
        begun.append(1)
        release.wait(20)

    try:
        for _ in range(redis_values.MAX_THREADS + 3):
            with pytest.raises(TimeoutError):
                redis_values.in_time(hang)
        assert len(begun) == redis_values.MAX_THREADS
    finally:
        release.set()


@pytest.mark.parametrize("method", ["application/x-gzip", "application/x-bz2", "zlib", "bzip2"])
def test_a_compressed_message_is_not_unpacked(method: str) -> None:
    assert app.main == "playhead"
    packed = zlib.compress(b" " * 1_000_000) if "b" not in method else bz2.compress(b" " * 1_000_000)
    body: Any = packed
    message: Any = Message(body, headers={"compression": method}, content_type="application/json")
    assert message.body == packed
    ((_, error, _),) = message.errors
    assert "not compressed" in str(error)


@pytest.mark.parametrize("access", ["get", "set", "limit"])
def test_runs_leave_a_slow_redis_alone(
    access: str, use: Callable[[str], RedisCache], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response of many small parts takes longer than any limit for a part."""
    monkeypatch.setattr(redis_values, "RESPONSE_SECONDS", 0.05)
    monkeypatch.setattr(redis_values, "RETRY_SECONDS", 3600.0)
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/second"} if access == "limit" else {}
    begun, release = list[str](), threading.Event()

    def hang(*_: object, **__: object) -> None:
        begun.append(access)
        release.wait(1)

    cache = use("redis://127.0.0.1:1/0")
    monkeypatch.setattr(cache, "get", hang if access == "get" else lambda _: None)
    monkeypatch.setattr(cache, "set", hang)
    monkeypatch.setattr("limits.storage.RedisStorage.acquire_entry", hang)
    monkeypatch.setattr("limits.storage.RedisStorage.get_moving_window", hang)
    limit = LimitReached("Wait.", provider="openai", status=429)
    reservation = Reservation(Payer(uuid4(), uuid4()), "gpt-5-mini")
    try:
        for _ in range(3):
            if access == "set":
                MeteredModel("gpt-5-mini", None)._before_retry(reservation, 1, limit, 1.0)
            else:
                provider_limits.wait_for_provider("openai", "gpt-5-mini", PROJECT)
        assert begun == [access]
    finally:
        release.set()


def test_many_threads_of_runs_share_the_limits_in_a_redis_that_responds(
    use: Callable[[str], RedisCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may wait for Redis at once."""
    monkeypatch.setattr(redis_values, "RESPONSE_SECONDS", 60.0)
    monkeypatch.setattr(redis_values, "_free", threading.BoundedSemaphore(redis_values.MAX_THREADS))
    all_started = threading.Barrier(4 * redis_values.MAX_THREADS)
    cache, pauses = use("redis://127.0.0.1:1/0"), list[float]()

    def get(_: str) -> float:
        time.sleep(0.01)
        return time.time() + 50

    def ask() -> None:
        all_started.wait(60)
        pauses.append(provider_limits.pause_of("gpt-5-mini", PROJECT))

    monkeypatch.setattr(cache, "get", get)
    threads = [threading.Thread(target=ask) for _ in range(all_started.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pauses) == len(threads)
    assert min(pauses) > 0
