"""Threads of the pools close their database connections when they end, and after each long request."""

import asyncio
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from historyapp.front import pools
from historyapp.front.all_pools import make_pools
from historyapp.front.attempts import PasswordAttempts
from historyapp.front.pools import Client
from historyapp.services.connections import OWN_SLOTS
from historyapp.wire.problems import ServerUnavailable

pytestmark = pytest.mark.django_db(transaction=True)


def _never(error: ServerUnavailable) -> None:
    raise AssertionError(error)


def _connections_of(pool: str, jobs: int, *, until_ended: bool) -> list[Any]:
    """The connections that the threads of a pool used for simultaneous jobs.

    Args:
        until_ended: wait until the threads have ended, except for one that is kept. Otherwise, until the jobs
            have ended.
    """
    used = list[Any]()
    together = threading.Barrier(jobs)

    def query(_: float) -> None:
        connection.ensure_connection()
        used.append(connections["default"])
        together.wait(10)

    async def run() -> None:
        made = make_pools(4, 5, PasswordAttempts())[pool]
        for number in range(jobs):
            name = str(number).encode()
            made.submit(Client(name, name), query, _never)
        while made.is_busy or (until_ended and made._threads > made._keeps_thread):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 20))
    assert len({id(wrapper) for wrapper in used}) == jobs
    return used


@pytest.mark.parametrize(("pool", "kept"), [("reads", 1), ("writes", 1), ("calls", 0), ("checks", 0)])
def test_a_thread_that_ends_closes_its_connection(
    monkeypatch: pytest.MonkeyPatch, pool: str, kept: int
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.1)
    used = _connections_of(pool, 3, until_ended=True)
    until = threading.Event()
    for _ in range(100):
        if sum(wrapper.connection is not None for wrapper in used) <= kept:
            break
        until.wait(0.02)
    assert sum(wrapper.connection is not None for wrapper in used) <= kept
    for wrapper in used:
        wrapper.inc_thread_sharing()
        wrapper.close()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="connections to SQLite stay open")
@pytest.mark.parametrize("pool", ["calls", "transfers"])
def test_threads_for_long_requests_close_their_connection_after_each(pool: str) -> None:
    used = _connections_of(pool, 2, until_ended=False)
    assert [wrapper.connection for wrapper in used] == [None, None]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite limits no connections")
def test_model_calls_of_a_project_use_few_connections_and_others_do_not_wait_for_them() -> None:
    """Hundreds of model calls may begin together, and wait for the rows of their spending caps."""
    release, numbers, other_connected = threading.Event(), list[int](), threading.Event()
    open_now, lock = Counter[Client](), threading.Lock()
    ours, theirs = Client(b"key", b"ours"), Client(b"other key", b"theirs")

    def call(client: Client, _: float) -> None:
        connection.ensure_connection()
        with lock:
            open_now[client] += 1
            numbers.append(open_now[ours])
        if client == theirs:
            other_connected.set()
        assert release.wait(20)
        with lock:
            open_now[client] -= 1

    async def run() -> None:
        pool = make_pools(4, 5, PasswordAttempts())["calls"]
        for client in (*[ours] * 12, theirs):
            pool.submit(client, partial(call, client), _never)
        while not (other_connected.is_set() and open_now[ours] >= OWN_SLOTS):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 20))
    assert len(numbers) == 13, "all get their turn"
    assert max(numbers) == OWN_SLOTS
