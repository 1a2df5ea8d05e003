"""An outbox keeps the order, counts bytes that wait in files, and aborts responses that nobody reads."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from historyapp.front.outbox import ClientGone, Outbox
from historyapp.front.pools import Client
from historyapp.front.unread import UnreadBytes
from tests.front.limits import MB, small_limits

ANN = Client(b"Ann", b"Ann")
HEAD = (200, list[tuple[bytes, bytes]]())


def run_with_thread(
    unread: UnreadBytes, write: Callable[[Outbox], None], read: Callable[[Outbox], Coroutine[Any, Any, Any]]
) -> Any:
    """The result of ``read`` while a thread writes."""

    async def run() -> Any:
        outbox = Outbox(asyncio.get_running_loop(), unread, ANN)
        thread = threading.Thread(target=write, args=(outbox,))
        thread.start()
        try:
            return await read(outbox)
        finally:
            while thread.is_alive():
                await asyncio.sleep(0.005)
            outbox.stop_reading()

    return asyncio.run(run())


async def read_all(outbox: Outbox) -> bytes:
    pieces = []
    while piece := await outbox.read():
        pieces.append(piece)
    return b"".join(pieces)


async def read_late(outbox: Outbox) -> bytes:
    await asyncio.sleep(0.05)
    return await read_all(outbox)


@pytest.mark.parametrize("read", [read_all, read_late])
def test_a_response_is_complete_and_in_order(read: Callable[[Outbox], Coroutine[Any, Any, bytes]]) -> None:
    """Through memory and several files, with pieces smaller and larger than what is written at once."""
    sizes = [10, 300_000, 5, 70_000, 3 * MB, 1, MB, 9 * MB, 2]
    chunks = [bytes([number]) * size for number, size in enumerate(sizes)]
    unread = UnreadBytes(small_limits(client_unread=64 * MB, all_unread=256 * MB))

    def write(outbox: Outbox) -> None:
        for chunk in chunks:
            outbox.write(chunk)
        outbox.end(HEAD, None)

    assert run_with_thread(unread, write, read) == b"".join(chunks)
    assert unread.total == 0


def test_a_reader_that_catches_up_gets_more_than_may_wait_for_it() -> None:
    unread = UnreadBytes(small_limits(client_unread=2 * MB, stall_seconds=5))

    def write(outbox: Outbox) -> None:
        for _ in range(20):
            outbox.write(b"x" * MB)
        outbox.end(HEAD, None)

    assert len(run_with_thread(unread, write, read_late)) == 20 * MB
    assert unread.total == 0


def test_an_unread_response_is_aborted_after_the_stall_time() -> None:
    unread = UnreadBytes(small_limits())
    ended = []

    def write(outbox: Outbox) -> None:
        started = time.monotonic()
        try:
            for _ in range(20):
                outbox.write(b"x" * MB)
        except ClientGone:
            ended.append((time.monotonic() - started, outbox.failed, unread.total))
        outbox.end(HEAD, None)

    async def wait_for_end(outbox: Outbox) -> bytes:
        while not ended:
            await asyncio.sleep(0.01)
        return await outbox.read()

    assert run_with_thread(unread, write, wait_for_end) == b""
    [(seconds, failed, held)] = ended
    assert 0.3 <= seconds < 3
    assert (failed, held) == (True, 0)


def test_a_closed_connection_frees_the_thread_that_waits_for_its_reader() -> None:
    unread = UnreadBytes(small_limits(stall_seconds=60))
    started = time.monotonic()

    def write(outbox: Outbox) -> None:
        with pytest.raises(ClientGone):
            outbox.write(b"x" * 20 * MB)
        assert not outbox.failed

    async def close(outbox: Outbox) -> None:
        while unread.total < 4 * MB:
            await asyncio.sleep(0.005)
        outbox.stop_reading()

    run_with_thread(unread, write, close)
    assert time.monotonic() - started < 30
    assert unread.total == 0


def test_a_full_disk_leaves_no_bytes_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("historyapp.front.outbox.os.pwrite", refuse)
    unread = UnreadBytes(small_limits())

    def write(outbox: Outbox) -> None:
        with pytest.raises(OSError, match="No space"):
            outbox.write(b"x" * MB)

    async def nothing(outbox: Outbox) -> None:
        pass

    run_with_thread(unread, write, nothing)
    assert unread.total == 0
