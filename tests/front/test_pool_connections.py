"""Threads of the pools close their database connections when they end, and after each long request."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest
from django.db import connection, connections

from historyapp.front import pools
from historyapp.front.all_pools import make_pools
from historyapp.front.attempts import PasswordAttempts
from historyapp.front.model_call_process import ModelCallServer
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


@pytest.mark.parametrize(("pool", "kept"), [("reads", 1), ("writes", 1), ("checks", 0)])
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
    monkeypatch.setattr(pools, "IDLE_SECONDS", 60)
    until.wait(0.3)  # the kept thread may be renewing its connection, which must not be closed meanwhile
    for wrapper in used:
        wrapper.inc_thread_sharing()
        wrapper.close()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="connections to SQLite stay open")
def test_threads_for_exports_and_imports_close_their_connection_after_each() -> None:
    used = _connections_of("transfers", 2, until_ended=False)
    assert [wrapper.connection for wrapper in used] == [None, None]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite limits no connections")
def test_model_calls_of_a_project_use_few_connections_and_others_do_not_wait_for_them() -> None:
    """Hundreds of model calls may begin together, and wait for the rows of their spending caps."""
    release, numbers, other_connected = threading.Event(), list[int](), threading.Event()
    open_now, lock, used = Counter[str](), threading.Lock(), list[Any]()

    def application(environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
        connection.ensure_connection()
        used.append(connections["default"])
        with lock:
            open_now[environ["owner"]] += 1
            numbers.append(open_now["ours"])
        if environ["owner"] == "theirs":
            other_connected.set()
        assert release.wait(20)
        with lock:
            open_now[environ["owner"]] -= 1
        start_response("200 OK", [])
        return []

    server, calls = ModelCallServer(application, lambda send, waited: nullcontext()), list[threading.Thread]()
    for owner in (*["ours"] * 12, "theirs"):
        own_end, other_end = Pipe()
        call = other_end, {"owner": owner}, owner, 0.0
        calls.append(threading.Thread(target=_answered, args=(server, own_end, call)))
        calls[-1].start()
    assert other_connected.wait(20)
    end = time.monotonic() + 20
    while open_now["ours"] < OWN_SLOTS and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)
    release.set()
    for thread in calls:
        thread.join(20)
    assert len(numbers) == 13, "all get their turn"
    assert max(numbers) == OWN_SLOTS
    assert not any(wrapper.connection for wrapper in used)


def _answered(server: ModelCallServer, own_end: Connection, call: tuple[Any, ...]) -> None:
    with own_end:
        server._call(*call)
