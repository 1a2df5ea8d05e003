"""Passes a response from the thread that makes it to the client that reads it."""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from tempfile import TemporaryFile

from historyapp.core.errors import PlayheadError
from historyapp.event_streams import Subscription
from historyapp.front.pools import Client
from historyapp.front.unread import UnreadBytes
from historyapp.wire.problems import ServerFailed

log = logging.getLogger(__name__)

IN_MEMORY = 1 << 18
"""The maximum number of unsent bytes in memory."""
MAX_SEND = 1 << 16
"""The maximum bytes of one send. A client must read them within the time limit."""
FILE_SIZE = 1 << 23
"""The size of one temporary file. A file is deleted when it is read, before the response is complete."""
MAX_WRITE = 1 << 20
"""The maximum bytes of one write to a file. The event loop can read between two writes."""

Head = tuple[int, list[tuple[bytes, bytes]]]


class ClientGone(Exception):
    """The client no longer reads the response."""


class UnreadFile:
    """An anonymous temporary file that is written once and read once."""

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115  the outbox closes it
        self.written = self.read = 0

    def write(self, piece: memoryview) -> None:
        end = self.written + len(piece)
        done = 0
        while done < len(piece):
            done += os.pwrite(self._file.fileno(), piece[done:], self.written + done)
        self.written = end

    def take(self) -> bytes:
        piece = os.pread(self._file.fileno(), min(MAX_SEND, self.written - self.read), self.read)
        self.read += len(piece)
        return piece

    def close(self) -> None:
        self._file.close()


class Outbox:
    """Buffers the unsent part of a response, so that a slow reader never holds a thread for long.

    Beyond 256 KB the buffer is in temporary files. A thread writes an export at full speed and then serves
    the next request. If there is no room for files, the thread waits for the reader. The response is aborted
    if the reader stalls for too long.

    Args:
        client: the client whose limits the bytes count in, see :class:`KnownClients`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        unread: UnreadBytes,
        client: Client,
    ) -> None:
        self._loop = loop
        self._unread = unread
        self.client = client
        self.lending_thread: Callable[[], AbstractContextManager[None]] = nullcontext
        """The context in which a thread waits for the reader, see :class:`Pool`."""
        self._lock = threading.Lock()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._files: deque[UnreadFile] = deque()
        self._ended = self._abandoned = False
        self._on_abandon: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.head: asyncio.Future[Head | None] = loop.create_future()
        """The status and headers. None if the thread has sent the whole response, or nobody reads it."""
        self.failed = False
        """The application failed during a stream."""
        self.sent = False
        """The thread has sent the whole response."""
        self.subscription: Subscription | None = None
        """Set if the response starts a stream of events."""
        self.body: bytes | None = None
        """The whole body, or None if the response is streamed."""

    # In the thread:

    def begin(self, head: Head) -> None:
        """Sends the head of a response whose body ``write`` sends in chunks."""
        self._loop.call_soon_threadsafe(self._set_head, head)

    def write(self, chunk: bytes) -> None:
        """Raises ClientGone if the client has closed the connection or reads too slowly."""
        view = memoryview(chunk)
        for start in range(0, len(chunk), MAX_WRITE):
            piece = view[start : start + MAX_WRITE]
            if not self._keep_in_memory(piece):
                if not self._unread.take(
                    self.client, len(piece), lambda: self._abandoned, self.lending_thread
                ):
                    self.abort()
                    raise ClientGone
                self._write_to_file(piece)
            self._loop.call_soon_threadsafe(self._wake)

    def _keep_in_memory(self, piece: memoryview) -> bool:
        with self._lock:
            if self._abandoned:
                raise ClientGone
            if self._files or self._size + len(piece) > IN_MEMORY:
                return False
            self._chunks.append(bytes(piece))
            self._size += len(piece)
            return True

    def _write_to_file(self, piece: memoryview) -> None:
        """Writes a chunk that ``UnreadBytes`` has counted already."""
        counted = len(piece)
        try:
            with self._lock:
                if self._abandoned:
                    raise ClientGone
                if not self._files or self._files[-1].written >= FILE_SIZE:
                    self._files.append(UnreadFile())
                self._files[-1].write(piece)
                counted = 0
        finally:
            self._unread.give_back(self.client, counted)

    def abort(self) -> None:
        """Drops the unsent part and closes the connection, so that the sent part does not look complete."""
        if not self._abandoned:
            self.failed = True
            log.warning(
                "A response was aborted: its reader is slow, and temporary files had no room for the rest "
                "(PLAYHEAD_CLIENT_UNREAD, PLAYHEAD_ALL_UNREAD, free disk)."
            )
        self.stop_reading()
        self._loop.call_soon_threadsafe(self._wake)

    def end(self, head: Head | None, body: bytes | None) -> None:
        """Sends a complete response, or ends a response that ``begin`` started."""
        self._loop.call_soon_threadsafe(self._finish, head, body)

    def wait_for_loop(self, timeout: float) -> None:
        """Waits until the event loop has run its ready callbacks, for at most ``timeout`` seconds."""
        done = threading.Event()
        with suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(done.set)
            done.wait(timeout)

    @property
    def abandoned(self) -> bool:
        """Whether the client no longer reads the response."""
        return self._abandoned

    @contextmanager
    def when_abandoned(self, call: Callable[[], None]) -> Iterator[None]:
        """Calls a function when the client no longer reads the response, within this block."""
        with self._lock:
            self._on_abandon = call
            is_abandoned = self._abandoned
        if is_abandoned:
            call()
        try:
            yield
        finally:
            with self._lock:
                self._on_abandon = None

    def end_with_error(self, error: PlayheadError) -> None:
        """Ends the response with this error, or breaks it off if it has started."""
        self.failed = True
        self.call_in_loop(partial(self.refuse, error))

    def call_in_loop(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    # In the event loop:

    def refuse(self, error: PlayheadError) -> None:
        """Raises this error where the head is awaited, unless the response has started."""
        if not self.head.done():
            self.head.set_exception(error)

    async def read(self) -> bytes:
        """Waits for the next chunk. Empty at the end, and after ``stop_reading``."""
        while True:
            with self._lock:
                if self._abandoned:
                    return b""
                piece = self._take()
                if piece or self._ended:
                    return piece
            self._waiter = self._loop.create_future()
            await self._waiter

    def stop_reading(self) -> None:
        """Stops reading. The thread gets ClientGone when it writes the next chunk."""
        with self._lock:
            self._abandoned = True
            if self._on_abandon:
                self._on_abandon()
            self._chunks.clear()
            self.body = None  # a stream of events keeps the outbox
            files = list(self._files)
            self._files.clear()
        for file in files:
            file.close()
        self._unread.give_back(self.client, sum(file.written for file in files))

    def _take(self) -> bytes:
        if self._chunks:
            parts, size = [], 0
            while self._chunks and size < MAX_SEND:
                parts.append(self._chunks.popleft())
                size += len(parts[-1])
            self._size -= size
            return b"".join(parts)
        if not self._files:
            return b""
        file = self._files[0]
        piece = file.take()
        if file.read == file.written:
            self._files.popleft().close()
            self._unread.give_back(self.client, file.written)
        return piece

    def _finish(self, head: Head | None, body: bytes | None) -> None:
        self._ended = True
        if self.sent or self._abandoned:
            self._set_head(None)
        elif self.failed or head is None:
            detail = "The server failed to carry out the request. The reason is in the server's log."
            self.refuse(ServerFailed(detail))
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
