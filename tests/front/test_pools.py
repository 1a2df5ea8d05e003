"""A pool runs jobs in threads, and refuses those that wait for too long."""

import asyncio
import threading
import time
from collections import Counter
from functools import partial

import pytest

from historyapp.front import pools
from historyapp.front.all_pools import make_pools
from historyapp.front.attempts import PasswordAttempts
from historyapp.front.pool_names import LARGE_REQUESTS
from historyapp.front.pools import MAX_WAITING, Client, Hooks, Pool
from historyapp.wire.problems import ServerUnavailable

ANN, BOB = Client(b"Ann", b"Ann"), Client(b"Bob", b"Bob")


@pytest.mark.parametrize("threads", [1, 2])  # of two, one client may have one
def test_a_job_learns_how_long_it_waited_for_a_thread(threads: int) -> None:
    async def run() -> list[float]:
        pool = Pool("writes", threads, max_wait=5, keeps_thread=False)
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


def test_jobs_of_a_pool_with_a_spacing_start_one_after_another_and_get_threads_only_then() -> None:
    async def run() -> tuple[list[float], list[int]]:
        pool = Pool("calls", 4, max_wait=5, keeps_thread=False, spacing=0.1)
        started, threads, release = list[float](), list[int](), threading.Event()
        submitted = time.monotonic()

        def work(waited: float) -> None:
            started.append(time.monotonic() - submitted)
            threads.append(sum(thread.name == "calls" for thread in threading.enumerate()))
            release.wait(5)

        for client in (ANN, BOB, Client(b"Cid", b"Cid")):
            pool.submit(client, work, _never)
        while len(threads) < 3:
            await asyncio.sleep(0.01)
        release.set()
        return started, threads

    started, threads = asyncio.run(run())
    assert all(seconds >= 0.1 * number for number, seconds in enumerate(started))
    assert threads == [1, 2, 3]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_that_finds_no_thread_in_time_is_refused_and_never_runs(threads: int) -> None:
    async def run() -> tuple[list[ServerUnavailable], list[float]]:
        pool = Pool("writes", threads, max_wait=0.05, keeps_thread=False)
        release, refused, ran = threading.Event(), list[ServerUnavailable](), list[float]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        pool.submit(ANN, ran.append, refused.append)
        await asyncio.sleep(0.2)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.01)
        pool.submit(ANN, ran.append, refused.append)
        while not ran:
            await asyncio.sleep(0.01)
        return refused, ran

    refused, ran = asyncio.run(run())
    assert [error.fields["retry_after"] for error in refused] == [2]
    assert "PLAYHEAD_QUEUE_SECONDS" in refused[0].detail
    assert len(ran) == 1


def test_a_job_is_refused_when_the_queue_is_full() -> None:
    async def run() -> int:
        pool = Pool("reads", 1, max_wait=5, keeps_thread=False)
        release, refused, ended = threading.Event(), list[ServerUnavailable](), list[float]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        for _ in range(MAX_WAITING + 3):
            pool.submit(ANN, ended.append, refused.append)
        at_once = len(refused)
        release.set()
        while len(ended) < MAX_WAITING:
            await asyncio.sleep(0.01)
        return at_once

    assert asyncio.run(run()) == 3


def test_a_full_queue_refuses_the_owner_with_the_most_waiting_jobs() -> None:
    owner = b"two addresses of one project"
    attackers = Client(b"first", owner), Client(b"second", owner)

    async def run() -> tuple[int, list[str]]:
        pool = Pool("reads", 1, max_wait=5, keeps_thread=False)
        release, refused, ran = threading.Event(), list[ServerUnavailable](), list[str]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        for number in range(MAX_WAITING):
            pool.submit(attackers[number % 2], partial(_note, ran, "attacker"), refused.append)
        pool.submit(BOB, partial(_note, ran, "Bob"), _never)
        pool.submit(attackers[0], partial(_note, ran, "attacker"), refused.append)
        at_once = len(refused)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.01)
        return at_once, ran

    at_once, ran = asyncio.run(asyncio.wait_for(run(), 20))
    assert at_once == 2, "one for Bob's, and the last one"
    assert "Bob" in ran[:3], "owners take turns"
    assert len(ran) == MAX_WAITING


def test_one_large_request_of_a_project_is_carried_out_at_a_time_and_two_in_total() -> None:
    keys = Client(b"first key", b"project"), Client(b"second key", b"project")

    async def run() -> tuple[list[str], list[str]]:
        pool = make_pools(4, 5, PasswordAttempts())[LARGE_REQUESTS]
        release, ran = threading.Event(), list[str]()

        def handle(client: Client, waited: float) -> None:
            ran.append(client.id.decode())
            release.wait(5)

        for client in (*keys, BOB, ANN):
            pool.submit(client, partial(handle, client), _never)
        while len(ran) < 2:
            await asyncio.sleep(0.01)
        assert pool._busy == 2
        at_once = list(ran)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.01)
        return at_once, ran

    at_once, ran = asyncio.run(run())
    assert sorted(at_once) == ["Bob", "first key"]
    assert sorted(ran) == ["Ann", "Bob", "first key", "second key"]


def test_clients_that_wait_get_a_thread_in_turn() -> None:
    async def run() -> list[str]:
        pool = Pool("writes", 1, max_wait=5, keeps_thread=False)
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


def test_the_clients_of_one_owner_take_turns_for_one() -> None:
    async def run() -> list[str]:
        pool = Pool("writes", 1, max_wait=5, keeps_thread=False)
        release, ran = threading.Event(), list[str]()
        pool.submit(ANN, lambda waited: release.wait(5), _never)
        for client in (Client(b"key 1", b"Cid"), Client(b"key 2", b"Cid"), Client(b"key 3", b"Cid"), BOB):
            for _ in range(2):
                pool.submit(client, partial(_note, ran, client.id.decode()), _never)
        release.set()
        while len(ran) < 8:
            await asyncio.sleep(0.01)
        return ran

    order = asyncio.run(run())
    assert order == ["key 1", "Bob", "key 2", "Bob", "key 3", "key 1", "key 2", "key 3"]


def test_a_job_counts_for_its_new_client_once_it_is_reassigned() -> None:
    """Otherwise two long requests with keys that are not known yet would block all pages of their address."""

    async def run() -> list[str]:
        pool = Pool("reads", 2, max_wait=5, keeps_thread=False)
        release, ran = threading.Event(), list[str]()

        def work(waited: float) -> None:
            pool.reassign(BOB)
            release.wait(5)

        pool.submit(ANN, work, _never)
        pool.submit(ANN, partial(_note, ran, "Ann"), _never)
        while pool._busy_by_client != {b"Bob": 1} or not ran:
            await asyncio.sleep(0.01)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.01)
        assert not pool._busy_by_client
        assert not pool._busy_by_owner
        return ran

    assert asyncio.run(asyncio.wait_for(run(), 5)) == ["Ann"]


def _hold(threads: int, spare: int, clients: str) -> list[str]:
    """The clients whose jobs got a thread. Each letter is a job that holds one; Ann's keys are A, B and C."""

    async def run() -> list[str]:
        pool = Pool("writes", threads, spare=spare, max_wait=5, keeps_thread=False)
        release, began, ended = threading.Event(), list[str](), list[float]()

        def hold(name: str, waited: float) -> None:
            began.append(name)
            release.wait(5)
            ended.append(waited)

        for name in clients:
            project = b"of Ann" if name in "ABC" else name.encode()
            pool.submit(Client(name.encode(), project), partial(hold, name), _never)
        await asyncio.sleep(0.1)
        held = sorted(began)
        release.set()
        while len(ended) < len(clients):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        assert not pool._busy_by_client
        assert not pool._busy_by_owner
        assert not pool.is_busy
        return held

    return asyncio.run(asyncio.wait_for(run(), 10))


def test_a_client_gets_another_thread_only_while_it_has_fewer_than_are_free() -> None:
    assert _hold(4, 0, "AAAAA") == ["A", "A"]
    assert _hold(8, 0, "AAAAAAAA") == ["A"] * 4


def test_two_keys_leave_a_thread_to_a_third_of_the_same_project() -> None:
    assert _hold(4, 0, "AAAABBBBC") == ["A", "A", "B", "C"]


def test_a_project_without_a_thread_gets_a_spare_one_even_if_another_has_many_keys() -> None:
    assert _hold(4, 2, "AAAABBBBCCDDEE") == ["A", "A", "B", "C", "D", "E"]


def test_spare_threads_are_limited_too() -> None:
    assert _hold(1, 1, "ABCDDEE") == ["A", "D"]


def test_the_next_job_gets_the_thread_that_worked_last() -> None:
    async def run() -> list[int]:
        pool = Pool("writes", 4, max_wait=5, keeps_thread=True)
        ran, all_run = list[int](), threading.Barrier(3)

        def note(_: float) -> None:
            ran.append(threading.get_ident())

        def note_together(_: float) -> None:
            all_run.wait(5)
            note(0)

        for name in (b"Ann", b"Bob", b"Charlie"):
            pool.submit(Client(name, name), note_together, _never)
        for number in range(3, 9):
            while len(ran) < number or pool.is_busy:
                await asyncio.sleep(0.005)
            pool.submit(ANN, note, _never)
        while len(ran) < 9:
            await asyncio.sleep(0.005)
        assert len(set(ran[:3])) == 3
        return ran[3:]

    assert len(set(asyncio.run(asyncio.wait_for(run(), 10)))) == 1


def test_idle_threads_end_except_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.front.pools.IDLE_SECONDS", 0.05)

    async def run() -> tuple[int, int]:
        pool = Pool("writes", 2, spare=1, max_wait=5, keeps_thread=True)
        release = threading.Event()
        for name in (b"Ann", b"Bob", b"Charlie"):
            pool.submit(Client(name, name), lambda waited: release.wait(5), _never)
        busy = pool._threads
        release.set()
        while pool._threads > 1:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return busy, pool._threads

    assert asyncio.run(asyncio.wait_for(run(), 10)) == (3, 1)


def test_the_kept_thread_is_notified_once_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.front.pools.IDLE_SECONDS", 0.05)

    async def run() -> tuple[list[int], list[int]]:
        notified, ran = list[int](), list[int]()
        pool = Pool(
            "reads",
            2,
            max_wait=5,
            keeps_thread=True,
            hooks=Hooks(lambda: notified.append(threading.get_ident())),
        )
        for number in (1, 2):
            pool.submit(ANN, lambda waited: ran.append(threading.get_ident()), _never)
            while len(notified) < number:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
        return notified, ran

    notified, ran = asyncio.run(asyncio.wait_for(run(), 10))
    assert notified == ran
    assert len(set(ran)) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_jobs_do_not_wait_for_an_idle_thread_that_is_notified(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.02)
    notified, ended, ran = threading.Event(), threading.Event(), list[str]()

    def on_idle() -> None:
        notified.set()
        ended.wait(10)
        if fails:
            raise KeyError("unexpected")

    async def run() -> None:
        pool = Pool("requests", 1, max_wait=5, keeps_thread=True, hooks=Hooks(on_idle))
        for name in ("first", "while it is notified", "afterwards"):
            pool.submit(ANN, partial(_note, ran, name), _never)
            while name not in ran:
                await asyncio.sleep(0.01)
            if name == "first":
                await asyncio.to_thread(notified.wait)
            else:
                ended.set()

    asyncio.run(asyncio.wait_for(run(), 10))
    assert ran == ["first", "while it is notified", "afterwards"]


def _note(ran: list[str], name: str, waited: float) -> None:
    ran.append(name)


def _never(error: ServerUnavailable) -> None:
    raise AssertionError(error)


def test_a_job_that_waits_for_its_client_leaves_its_turn_to_another_one() -> None:
    async def run() -> int:
        pool = Pool("transfers", 1, max_wait=5, keeps_thread=True)
        release, ran, peaks, now = threading.Event(), list[float](), list[int](), Counter[str]()

        def wait(_: float) -> None:
            with pool.lending_thread():
                release.wait(5)
            ran.append(0)

        def compute(_: float) -> None:
            now["running"] += 1
            peaks.append(now["running"])
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
        peaks.clear()
        for _ in range(6):
            pool.submit(ANN, compute, _never)
        while len(ran) < 8:
            await asyncio.sleep(0.005)
        return max(peaks[1:])

    assert asyncio.run(asyncio.wait_for(run(), 10)) == 1
