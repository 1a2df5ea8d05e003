"""A pool runs jobs in threads, and refuses those that wait for too long."""

import asyncio
import threading
import time
from collections import Counter
from functools import partial

import pytest

from historyapp.front.pools import MOST_WAITING, Pool
from historyapp.wire.problems import ServerUnavailable

ANN, BOB = b"Ann", b"Bob"


@pytest.mark.parametrize("threads", [1, 2])  # of two, one client may have one
def test_a_job_learns_how_long_it_waited_for_a_thread(threads: int) -> None:
    async def run() -> list[float]:
        pool = Pool("writes", threads, patience=5, keeps_threads=False)
        release, waits = threading.Event(), list[float]()

        def hold(waited: float) -> None:
            waits.append(waited)
            release.wait(5)

        pool.submit(ANN, hold, _never)
        pool.submit(ANN, waits.append, _never)
        await asyncio.sleep(0.1)
        release.set()
        while len(waits) < 2:
            await asyncio.sleep(0.01)
        return waits

    first, second = asyncio.run(run())
    assert first == 0
    assert 0.1 <= second < 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_that_finds_no_thread_in_time_is_refused_and_never_runs(threads: int) -> None:
    async def run() -> tuple[list[ServerUnavailable], list[float]]:
        pool = Pool("writes", threads, patience=0.05, keeps_threads=False)
        release, refused, ran = threading.Event(), list[ServerUnavailable](), list[float]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        pool.submit(ANN, ran.append, refused.append)
        await asyncio.sleep(0.2)
        release.set()
        pool.submit(ANN, ran.append, refused.append)
        while not ran:
            await asyncio.sleep(0.01)
        return refused, ran

    refused, ran = asyncio.run(run())
    assert [error.fields["retry_after"] for error in refused] == [2]
    assert "PLAYHEAD_QUEUE_SECONDS" in refused[0].detail
    assert len(ran) == 1


def test_beyond_so_many_waiting_jobs_each_further_one_is_refused_at_once() -> None:
    async def run() -> int:
        pool = Pool("reads", 1, patience=5, keeps_threads=False)
        release, refused, ended = threading.Event(), list[ServerUnavailable](), list[float]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        for _ in range(MOST_WAITING + 3):
            pool.submit(ANN, ended.append, refused.append)
        at_once = len(refused)
        release.set()
        while len(ended) < MOST_WAITING:
            await asyncio.sleep(0.01)
        return at_once

    assert asyncio.run(run()) == 3


def test_clients_that_wait_get_a_thread_in_turn() -> None:
    async def run() -> list[str]:
        pool = Pool("writes", 1, patience=5, keeps_threads=False)
        release, ran = threading.Event(), list[str]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        for number in range(5):
            pool.submit(ANN, partial(_note, ran, f"Ann {number}"), _never)
        pool.submit(BOB, partial(_note, ran, "Bob"), _never)
        release.set()
        while len(ran) < 6:
            await asyncio.sleep(0.01)
        return ran

    order = asyncio.run(run())
    assert order.index("Bob") <= 1
    assert [name for name in order if name != "Bob"] == [f"Ann {number}" for number in range(5)]


def test_a_client_never_has_all_threads() -> None:
    async def run() -> tuple[int, int]:
        pool = Pool("writes", 3, patience=5, keeps_threads=False)
        release, ran, began = threading.Event(), list[str](), list[str]()

        def hold(waited: float) -> None:
            began.append("Ann")
            release.wait(5)
            ran.append("Ann")

        for _ in range(6):
            pool.submit(ANN, hold, _never)
        await asyncio.sleep(0.05)
        for _ in range(3):
            pool.submit(BOB, partial(_note, ran, "Bob"), _never)
        while ran.count("Bob") < 3:
            await asyncio.sleep(0.005)
        at_once = len(began)
        release.set()
        while len(ran) < 9:
            await asyncio.sleep(0.005)
        return at_once, len(pool._running)

    assert asyncio.run(asyncio.wait_for(run(), 10)) == (2, 0)


def _note(ran: list[str], name: str, waited: float) -> None:
    ran.append(name)


def _never(error: ServerUnavailable) -> None:
    raise AssertionError(error)


def test_a_job_that_waits_for_its_client_leaves_its_turn_to_another_one() -> None:
    async def run() -> int:
        loop = asyncio.get_running_loop()
        pool = Pool("transfers", 1, patience=5, keeps_threads=True)
        release, ran, most, now = threading.Event(), list[float](), list[int](), Counter[str]()

        def wait(_: float) -> None:
            with pool.aside(ANN, loop):
                release.wait(5)
            ran.append(0)

        def compute(_: float) -> None:
            now["running"] += 1
            most.append(now["running"])
            time.sleep(0.01)
            now["running"] -= 1
            ran.append(1)

        pool.submit(ANN, wait, _never)
        pool.submit(BOB, compute, _never)
        while not ran:
            await asyncio.sleep(0.005)
        assert ran == [1]
        release.set()
        while len(ran) < 2:
            await asyncio.sleep(0.005)
        most.clear()
        for _ in range(6):
            pool.submit(ANN, compute, _never)
        while len(ran) < 8:
            await asyncio.sleep(0.005)
        return max(most[1:])

    assert asyncio.run(asyncio.wait_for(run(), 10)) == 1
