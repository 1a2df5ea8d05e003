"""A response on its way from the thread that makes it to the client that reads it."""

import asyncio
import os
import threading
from collections import deque
from errno import ENOSPC
from shutil import disk_usage
from tempfile import TemporaryFile, gettempdir
from typing import IO

from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import ServerFailed

IN_MEMORY = 1 << 18
LOOK_BYTES = 1 << 24
"""Written to the file between two looks at the free space."""
PIECE = 1 << 16
"""Bytes that are sent at once; a client must read them within the time limit."""

Head = tuple[int, list[tuple[bytes, bytes]]]


class ClientGone(Exception):
    """Nobody reads the response any more."""


class Outbox:
    """Holds what is not sent yet, so that a slow reader never holds a thread.

    Beyond 256 KB a temporary file holds it: a thread writes an export as fast as it can make it, and then
    serves the next request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, spare_disk: int) -> None:
        self._loop = loop
        self._spare_disk = spare_disk
        self._lock = threading.Lock()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written = self._read = self._next_look = 0
        self._ended = self._abandoned = False
        self._waiter: asyncio.Future[None] | None = None
        self.head: asyncio.Future[Head | None] = loop.create_future()
        """None when the thread has sent the response itself."""
        self.failed = False
        """The application failed in the middle of a stream."""
        self.sent = False
        """The thread has sent the whole response."""
        self.body: bytes | None = None
        """The whole body, or None if it is streamed."""

    # In the thread:

    def begin(self, head: Head) -> None:
        """Sends the head of a response that ``write`` adds piece by piece."""
        self._loop.call_soon_threadsafe(self._set_head, head)

    def write(self, chunk: bytes) -> None:
        """Keeps a piece until the client reads it.

        Raises:
            ClientGone: when the client has closed the connection or reads too slowly.
            OSError: when the disk is too full for it.
        """
        with self._lock:
            if self._abandoned:
                raise ClientGone
            if self._file is None and self._size + len(chunk) > IN_MEMORY:
                self._file = TemporaryFile(buffering=0)  # noqa: SIM115  closed by abandon
            if self._file is None:
                self._chunks.append(chunk)
                self._size += len(chunk)
            else:
                if self._written >= self._next_look:
                    self._check_disk()
                self._written += _write_all(self._file, chunk, self._written)
        self._loop.call_soon_threadsafe(self._wake)

    def _check_disk(self) -> None:
        self._next_look = self._written + LOOK_BYTES
        if disk_usage(gettempdir()).free < self._spare_disk + LOOK_BYTES:
            raise OSError(ENOSPC, "The disk has too little space for responses that clients read slowly.")

    def end(self, head: Head | None, body: bytes | None) -> None:
        """Sends a whole response, or ends the one that has begun."""
        self._loop.call_soon_threadsafe(self._finish, head, body)

    # In the event loop:

    def refuse(self, error: PlayheadError) -> None:
        """Whoever waits for the head gets this error, unless the response has begun."""
        if not self.head.done():
            self.head.set_exception(error)

    async def read(self) -> bytes:
        """The next piece, as soon as there is one; empty at the end, and once nobody reads any more."""
        while True:
            with self._lock:
                if self._abandoned:
                    return b""
                piece = self._take()
                if piece or self._ended:
                    return piece
            self._waiter = self._loop.create_future()
            await self._waiter

    def abandon(self) -> None:
        """Nothing more is read. The thread finds out when it writes the next piece."""
        with self._lock:
            self._abandoned = True
            self._chunks.clear()
            if self._file is not None:
                self._file.close()

    def _take(self) -> bytes:
        if self._chunks:
            parts, size = [], 0
            while self._chunks and size < PIECE:
                parts.append(self._chunks.popleft())
                size += len(parts[-1])
            self._size -= size
            return b"".join(parts)
        if self._file is not None and self._read < self._written:
            piece = os.pread(self._file.fileno(), PIECE, self._read)
            self._read += len(piece)
            return piece
        return b""

    def _finish(self, head: Head | None, body: bytes | None) -> None:
        self._ended = True
        if self.sent:
            self._set_head(None)
        elif self.failed or head is None:
            self.refuse(ServerFailed("The server failed to carry out the request. Its log has the reason."))
        elif not self.head.done():
            self.body = body
            self.head.set_result(head)
        self._wake()

    def _set_head(self, head: Head | None) -> None:
        if not self.head.done():
            self.head.set_result(head)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _write_all(file: IO[bytes], chunk: bytes, offset: int) -> int:
    done = 0
    while done < len(chunk):
        done += os.pwrite(file.fileno(), chunk[done:], offset + done)
    return done
