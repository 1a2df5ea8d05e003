"""Unread responses share the disk. Slow readers of one client cannot use up the disk or the threads."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from historyapp.front.application import Front
from historyapp.front.limits import client_of
from historyapp.front.pools import Client, Pool
from historyapp.front.sockets import Connections
from historyapp.front.unread import WRITERS, WRITERS_OF_OWNER, UnreadBytes
from historyapp.wire.problems import ServerUnavailable
from tests.front.limits import MB, small_limits
from tests.front.one_request import scope_of

ANN, BOB = Client(b"Ann", b"Ann"), Client(b"Bob", b"Bob")
EXPORT = 20 * MB


def never() -> bool:
    return False


def never_refused(error: ServerUnavailable) -> None:
    raise AssertionError(error)


def test_a_client_can_fill_only_its_share() -> None:
    unread = UnreadBytes(small_limits(stall_seconds=0.01))
    assert [unread.take(ANN, MB, never, nullcontext) for _ in range(6)] == [True] * 4 + [False] * 2
    unread.give_back(ANN, MB)
    assert unread.take(ANN, MB, never, nullcontext)


def test_a_further_client_finds_room_after_any_number_of_full_shares() -> None:
    unread = UnreadBytes(small_limits(stall_seconds=0.001))
    for number in range(12):
        client, held = Client(b"%d" % number, b"%d" % number), 0
        while unread.take(client, 1 << 10, never, nullcontext):
            held += 1
        assert held
    assert unread.total < 16 * MB


def test_a_thread_waits_until_there_is_room() -> None:
    unread = UnreadBytes(small_limits(stall_seconds=20))
    assert unread.take(ANN, 4 * MB, never, nullcontext)
    took = []
    thread = threading.Thread(target=lambda: took.append(unread.take(ANN, MB, never, nullcontext)))
    thread.start()
    unread.give_back(ANN, MB)
    thread.join(10)
    assert took == [True]


def test_one_thread_waits_for_each_client() -> None:
    unread = UnreadBytes(small_limits(stall_seconds=20))
    gone, was_checked = threading.Event(), threading.Event()

    def is_gone() -> bool:
        was_checked.set()
        return gone.is_set()

    assert unread.take(ANN, 4 * MB, never, nullcontext)
    thread = threading.Thread(target=unread.take, args=(ANN, MB, is_gone, nullcontext))
    thread.start()
    assert was_checked.wait(10)
    assert not unread.take(ANN, MB, never, nullcontext)
    gone.set()
    unread.give_back(ANN, 0)
    thread.join(10)
    assert not thread.is_alive()


def test_a_client_may_wait_again_after_a_thread_could_not_wait_for_it() -> None:
    class NoThread(nullcontext[None]):
        def __enter__(self) -> None:
            raise RuntimeError("can't start new thread")

    unread = UnreadBytes(small_limits(stall_seconds=0.01))
    assert unread.take(ANN, 4 * MB, never, nullcontext)
    with pytest.raises(RuntimeError, match="new thread"):
        unread.take(ANN, MB, never, NoThread)
    entered: list[str] = []

    class Noted(nullcontext[None]):
        def __enter__(self) -> None:
            entered.append("waits")

    assert not unread.take(ANN, MB, never, Noted)
    assert entered == ["waits"]


def test_clients_of_one_owner_leave_room_and_threads_to_another_owner() -> None:
    limits = small_limits(stall_seconds=20, client_unread=2 * MB)
    unread, gone, threads = UnreadBytes(limits), threading.Event(), list[threading.Thread]()
    for number in range(WRITERS + 1):
        key = Client(b"%d" % number, b"of Ann")
        while unread._has_room(key, 1 << 14):
            assert unread.take(key, 1 << 14, never, nullcontext)
        if unread._may_wait(key):
            thread = threading.Thread(target=unread.take, args=(key, MB, gone.is_set, nullcontext))
            thread.start()
            threads.append(thread)
            while key.id not in unread._waiting:
                time.sleep(0.001)
    assert unread.total <= 4 * MB
    assert len(threads) == WRITERS_OF_OWNER
    assert unread.take(BOB, 2 * MB, never, nullcontext)
    assert unread._may_wait(BOB)
    gone.set()
    unread.give_back(BOB, 0)
    for thread in threads:
        thread.join(10)
    assert unread._waiting == {}


def test_an_owner_without_a_waiting_thread_may_have_a_spare_one() -> None:
    unread = UnreadBytes(small_limits())
    owner_of = {b"%d" % number: b"%d" % (number % 3) for number in range(WRITERS)}
    unread._waiting.update(owner_of)
    assert not unread._may_wait(Client(b"another key", b"0"))
    assert unread._may_wait(BOB)


def test_a_thread_that_waits_for_its_turn_holds_no_lock() -> None:
    """Otherwise no reader could make room for anybody meanwhile."""
    unread, was_free = UnreadBytes(small_limits(stall_seconds=0)), list[bool]()

    @contextmanager
    def waiting() -> Iterator[None]:
        yield
        thread = threading.Thread(target=unread.give_back, args=(ANN, MB))
        thread.start()
        thread.join(5)
        was_free.append(not thread.is_alive())

    assert unread.take(ANN, 4 * MB, never, nullcontext)
    assert not unread.take(ANN, MB, never, waiting)
    assert was_free == [True]


@pytest.mark.parametrize(
    ("free", "whole", "fits"), [(9, 80, True), (8, 80, False), (257, 9000, True), (256, 9000, False)]
)
def test_a_part_of_the_disk_stays_free(
    monkeypatch: pytest.MonkeyPatch, free: int, whole: int, fits: bool
) -> None:
    fields = (MB, MB, whole, free, free, 0, 0, 0, 0, 255)
    monkeypatch.setattr("historyapp.front.unread.os.statvfs", lambda _: os.statvfs_result(fields))
    unread = UnreadBytes(small_limits(stall_seconds=0, min_free_disk=256 * MB))
    assert unread.take(ANN, 1, never, nullcontext) is fits


class Streaming:
    """A WSGI response that yields 20 MB."""

    streaming = True

    def __iter__(self) -> Iterator[bytes]:
        return iter([b"x" * MB] * 20)


def export(environ: dict[str, Any], start_response: Any) -> Streaming:
    start_response("200 OK", [])
    return Streaming()


async def get(front: Front, key: bytes, *, reads: bool, events: list[str] | None = None) -> int:
    """The bytes that a client gets of an export. One that does not read stops at the first piece."""
    size = 0
    path, client = "/api/v1/sessions/1/export", ("127.0.0.1", 1000 + int(reads))
    scope = scope_of("GET", path, (b"authorization", b"Bearer " + key), client=client)

    async def send(message: dict[str, Any]) -> None:
        nonlocal size
        size += len(message.get("body", b""))
        if events is not None and "body" in message:
            events.append(message["body"].decode() or "end")
        if size and not reads:
            await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    front.known_clients.add(client_of(path, b"Bearer " + key, "127.0.0.1"), key)
    await front(scope, receive, send)
    return size


def test_unread_exports_do_not_block_other_clients() -> None:
    async def run() -> int:
        front = Front(export, small_limits(stall_seconds=4), 1)
        slow = [asyncio.create_task(get(front, ANN.id, reads=False)) for _ in range(12)]
        await asyncio.sleep(0)
        size = await asyncio.wait_for(get(front, BOB.id, reads=True), 3.5)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        while any(pool._pending for pool in front._pools.values()):
            await asyncio.sleep(0.01)
        return size

    assert asyncio.run(run()) == EXPORT


def test_the_end_of_a_failed_response_follows_the_closing_of_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that received it would take a part of an export for the whole."""

    class Failing(Streaming):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x"
            raise OSError("the disk")

    def application(environ: dict[str, Any], start_response: Any) -> Streaming:
        start_response("200 OK", [])
        return Failing()

    events: list[str] = []
    close_batch = Connections._close_batch

    def note_closing(self: Connections) -> None:
        close_batch(self)
        events.append("closed")

    monkeypatch.setattr(Connections, "_close_batch", note_closing)

    async def run() -> None:
        front = Front(application, small_limits(), 1)
        await get(front, ANN.id, reads=True, events=events)

    asyncio.run(run())
    assert events == ["closed", "end"]


def test_jobs_whose_clients_read_again_together_leave_a_thread_to_another_owner() -> None:
    """They wait for threads like other jobs. Three keys of one project can keep two of two threads."""
    keys = [Client(name, b"of Ann") for name in (b"A", b"B", b"C")]

    async def run() -> int:
        pool = Pool("transfers", 2, spare=1, max_wait=5, keeps_thread=False)
        read, release, computing, ended = threading.Event(), threading.Event(), list[int](), list[float]()
        waits = threading.Semaphore(0)

        def transfer(_: float) -> None:
            with pool.lending_thread():
                waits.release()
                read.wait(5)
            computing.append(pool._busy)
            release.wait(5)
            ended.append(0)

        for key in keys:
            pool.submit(key, transfer, never_refused)
            await asyncio.to_thread(waits.acquire)
        read.set()
        while len(computing) < 2 or len(pool._returning) < 1:
            await asyncio.sleep(0.001)
        pool.submit(BOB, ended.append, never_refused)
        while not ended or pool._busy > 2:
            await asyncio.sleep(0.001)
        at_once = len(computing)
        release.set()
        while pool.is_busy:
            await asyncio.sleep(0.001)
        assert len(computing) == 3
        assert not pool._busy_by_client
        return at_once

    assert asyncio.run(asyncio.wait_for(run(), 10)) == 2


def test_a_pool_is_not_busy_while_its_only_job_lends_its_thread() -> None:
    """Exports pause while the pools of short requests are busy, and a token count may wait for its provider
    for many seconds."""

    async def run() -> list[bool]:
        pool = Pool("reads", 1, max_wait=5, keeps_thread=False)
        busy, waits, release = list[bool](), threading.Event(), threading.Event()

        def count_tokens(_: float) -> None:
            busy.append(pool.is_busy)
            with pool.lending_thread():
                waits.set()
                release.wait(5)
            busy.append(pool.is_busy)

        pool.submit(ANN, count_tokens, never_refused)
        await asyncio.to_thread(waits.wait, 5)
        busy.append(pool.is_busy)
        release.set()
        while len(busy) < 3:
            await asyncio.sleep(0.001)
        return busy

    assert asyncio.run(asyncio.wait_for(run(), 10)) == [True, False, True]
