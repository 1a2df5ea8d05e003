"""A job whose owner becomes known counts for this owner, and waits if the owner has no thread left."""

import asyncio
import threading

import pytest

from historyapp.front.pools import MAX_RETURNING, Client, Pool
from historyapp.wire.problems import ServerUnavailable, TooManyRequests

ANN, BOB = Client(b"Ann", b"Ann"), Client(b"Bob", b"Bob")


def never(error: ServerUnavailable) -> None:
    raise AssertionError(error)


@pytest.mark.parametrize("ends", [True, False])
def test_a_reassigned_job_waits_until_its_new_owner_may_have_a_thread(ends: bool) -> None:
    """Otherwise browser sessions that are not known yet take all threads for one project, one at a time."""
    key, browser = Client(b"key", b"project"), Client(b"browser", b"project")

    async def run() -> tuple[list[str], list[ServerUnavailable]]:
        pool = Pool("transfers", 1, spare=1, max_wait=5 if ends else 0.05, keeps_thread=False)
        release, ran, refused = threading.Event(), list[str](), list[ServerUnavailable]()

        def move(waited: float) -> None:
            try:
                pool.reassign(browser)
                ran.append("browser")
            except ServerUnavailable as error:
                refused.append(error)

        pool.submit(key, lambda waited: release.wait(5), never)
        pool.submit(ANN, move, never)
        pool.submit(BOB, lambda waited: ran.append("Bob"), never)
        while not ran or not (ends or refused):
            await asyncio.sleep(0.005)
        assert ran == ["Bob"], "the key still has its thread"
        release.set()
        while pool._pending:
            await asyncio.sleep(0.005)
        assert not pool._busy_by_client
        assert not pool._busy_by_owner
        return ran, refused

    ran, refused = asyncio.run(asyncio.wait_for(run(), 5))
    assert ran == (["Bob", "browser"] if ends else ["Bob"])
    assert [type(error) for error in refused] == ([] if ends else [TooManyRequests])


def test_of_one_owner_few_reassigned_jobs_wait() -> None:
    """Each has a thread of the system."""

    async def run() -> tuple[int, int]:
        pool = Pool("transfers", 1, spare=1, max_wait=5, keeps_thread=False)
        release, refused, ran = threading.Event(), list[ServerUnavailable](), list[float]()

        def move(waited: float) -> None:
            try:
                pool.reassign(Client(b"browser", b"project"))
                ran.append(waited)
            except ServerUnavailable as error:
                refused.append(error)

        pool.submit(Client(b"key", b"project"), lambda waited: release.wait(5), never)
        for _ in range(MAX_RETURNING + 2):
            pool.submit(ANN, move, never)
        while len(refused) < 2:
            await asyncio.sleep(0.005)
        release.set()
        while pool._pending:
            await asyncio.sleep(0.005)
        return len(ran), len(refused)

    assert asyncio.run(asyncio.wait_for(run(), 5)) == (MAX_RETURNING, 2)


def test_work_that_continues_elsewhere_does_not_wait_when_it_is_reassigned() -> None:
    async def run() -> list[str]:
        pool = Pool("transfers", 1, spare=1, max_wait=5, keeps_thread=False)
        release, ran = threading.Event(), list[str]()

        def move(waited: float) -> None:
            pool.reassign(Client(b"browser", b"project"), waits=False)
            ran.append("went on")
            release.set()

        pool.submit(Client(b"key", b"project"), lambda waited: release.wait(5), never)
        pool.submit(ANN, move, never)
        while pool._pending:
            await asyncio.sleep(0.005)
        assert not pool._busy_by_owner
        return ran

    assert asyncio.run(asyncio.wait_for(run(), 2)) == ["went on"]
