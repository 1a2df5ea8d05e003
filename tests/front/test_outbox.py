"""A response waits for its reader in memory, then in a file, and never fills the disk."""

import asyncio

import pytest

from historyapp.front.outbox import IN_MEMORY, PIECE, ClientGone, Outbox

HEAD = (200, [(b"content-type", b"text/plain")])
CHUNK = bytes(range(256)) * 500


def test_all_that_is_written_is_read_in_its_order() -> None:
    async def run() -> bytes:
        outbox = Outbox(asyncio.get_running_loop(), spare_disk=0)
        outbox.begin(HEAD)
        number = 5 * IN_MEMORY // len(CHUNK)
        for n in range(number):
            outbox.write(n.to_bytes(4) + CHUNK)
        outbox.end(HEAD, None)
        assert await outbox.head == HEAD
        read = b""
        while piece := await outbox.read():
            assert len(piece) <= PIECE + len(CHUNK) + 4
            read += piece
        outbox.abandon()
        assert read == b"".join(n.to_bytes(4) + CHUNK for n in range(number))
        return read

    assert len(asyncio.run(run())) > IN_MEMORY


def test_what_would_fill_the_disk_is_not_written() -> None:
    async def run() -> None:
        outbox = Outbox(asyncio.get_running_loop(), spare_disk=1 << 60)
        outbox.write(b"x" * IN_MEMORY)
        with pytest.raises(OSError, match="too little space"):
            outbox.write(b"x")

    asyncio.run(run())


def test_after_the_client_has_gone_nothing_is_written_or_read() -> None:
    async def run() -> None:
        outbox = Outbox(asyncio.get_running_loop(), spare_disk=0)
        for _ in range(5):
            outbox.write(b"x" * IN_MEMORY)
        outbox.abandon()
        with pytest.raises(ClientGone):
            outbox.write(b"x")
        assert await outbox.read() == b""

    asyncio.run(run())
