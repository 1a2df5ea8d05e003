"""Reads a request's body before the request gets a thread, with limits on its size and its time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from historyapp.front.deadlines import ClientWait, Deadlines
from historyapp.front.limits import Limits
from historyapp.front.unread import disk_has_room
from historyapp.wire.problems import BodyTooSlow, Malformed, ServerUnavailable, TooLarge

Receive = Callable[[], Awaitable[dict[str, Any]]]

IN_MEMORY = 1 << 19
"""Longer bodies go to a temporary file, so that many slow requests do not fill the memory. For an append of
100 steps (300 KB), a file would take 0.3 ms.
"""
MAX_FORM = 1 << 20
"""The maximum size of an HTML form. Django parses it into many small objects before it checks the sender."""
MAX_CALL = 1 << 22
"""The maximum size of the body of a model call. It stays in memory until the call ends, in several forms: its
bytes, its values, and the provider's request."""
FIRST_BYTES = 1 << 13
"""A body gets its file when more than this many bytes have arrived. Creating it takes a millisecond of the
event loop under load, and hundreds of bodies may stall after their first byte.
"""
ALL_IN_MEMORY = 1 << 26
"""The maximum size of all bodies in memory. Beyond it, every further body goes to a file."""
SMALL_MESSAGE, MAX_SMALL_MESSAGES, SMALL_PAUSE = 1_000, 64, 0.25
"""A message of fewer bytes is small. After this many small messages of a body, the server pauses for so many
seconds after each further one. Meanwhile, the system joins the bytes that arrive. Without pauses, 1,500
bodies in packets of one byte delayed appends of others by 1.5 seconds."""
DISK_RETRY_SECONDS = 10
MAX_DIGITS = 100
"""The maximum number of digits of a Content-Length."""
DISCARD_FACTOR = 4
"""A body of up to this many times the limit is read before it is refused.

Most clients read the response only after they have sent the whole body. The sender of a longer body sees the
connection close.
"""


def length_of(headers: dict[bytes, bytes]) -> int:
    """The length of the body to read. 0 for a chunked body, which the API then refuses.

    Raises:
        Malformed: if the length has too many digits for Python to parse.
    """
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or b"transfer-encoding" in headers:
        return 0
    if len(length) > MAX_DIGITS:
        raise Malformed(f"The Content-Length has more than {MAX_DIGITS} digits.")
    return int(length)


def max_bytes(path: str, media_type: bytes, limits: Limits) -> int:
    """The maximum size of a request body for this path, in bytes."""
    if path.startswith("/api/") and path.endswith("/calls"):
        return min(MAX_CALL, limits.max_body)
    may_be_long = path.startswith("/api/") or path == "/imports"
    is_form = media_type.lower().startswith(b"application/x-www-form-urlencoded")
    return limits.max_body if may_be_long and not is_form else min(MAX_FORM, limits.max_body)


class BodyRoom:
    """Counts the bytes of the bodies of open requests. Only the event loop calls it."""

    def __init__(self, limits: Limits) -> None:
        self._min_free_disk = limits.min_free_disk
        self._in_memory = self._in_files = 0

    @contextmanager
    def reserve(self, length: int) -> Iterator[bool]:
        """Reserves room for a body while the block runs. Yields True for memory, False for a file.

        Raises:
            ServerUnavailable: if the file would fill the disk.
        """
        if length <= IN_MEMORY and self._in_memory + length <= ALL_IN_MEMORY:
            self._in_memory += length
            try:
                yield True
            finally:
                self._in_memory -= length
            return
        if not disk_has_room(self._in_files + length, self._min_free_disk):
            raise ServerUnavailable(
                "The server has too little free disk space for the request's body. Retry later.",
                retry_after=DISK_RETRY_SECONDS,
            )
        self._in_files += length
        try:
            yield False
        finally:
            self._in_files -= length


async def read_body(
    length: int,
    max_length: int,
    receive: Receive,
    limits: Limits,
    deadlines: Deadlines,
    *,
    in_memory: bool,
    keep: bool = True,
) -> IO[bytes]:
    """Reads the whole body. The returned file is at its start.

    Args:
        length: the Content-Length of the request.
        max_length: the maximum number of bytes to accept.
        in_memory: keep the body in memory, not in a temporary file.
        keep: otherwise the body is read and dropped, because the request will be refused.

    Raises:
        TooLarge: if the body is longer than ``max_length``.
        BodyTooSlow: if the body stalls, is slower than ``min_rate``, or takes longer than ``body_seconds``.
        Malformed: if the client stops sending before the end.
        ServerUnavailable: if the server stops before the body has arrived.
    """
    if length > DISCARD_FACTOR * limits.max_body:
        raise _too_large(max_length, limits)
    wait = deadlines.begin(limits.stall_seconds)
    try:
        if length > max_length:
            await _receive(length, receive, limits, wait, None)
            raise _too_large(max_length, limits)
        if not keep:
            await _receive(length, receive, limits, wait, None)
            return BytesIO()
        file = cast(IO[bytes], BytesIO() if in_memory else SpooledTemporaryFile(FIRST_BYTES))  # noqa: SIM115  the request closes it
        return await _receive_file(file, length, receive, limits, wait)
    except asyncio.CancelledError:
        if not wait.expired:
            raise
        wait.task.uncancel()
        if deadlines.stopping:
            raise ServerUnavailable("The server is stopping. Retry the request.", retry_after=2) from None
        raise BodyTooSlow(
            f"The body did not arrive in time. Send at least {limits.min_rate:,} bytes a second, all of it "
            f"within {limits.body_seconds:g} seconds, without a pause of {limits.stall_seconds:g} seconds."
        ) from None
    finally:
        deadlines.end(wait)


async def _receive_file(
    file: IO[bytes], length: int, receive: Receive, limits: Limits, wait: ClientWait
) -> IO[bytes]:
    try:
        await _receive(length, receive, limits, wait, file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


async def _receive(
    length: int, receive: Receive, limits: Limits, wait: ClientWait, file: IO[bytes] | None
) -> None:
    """Receives the body into ``file``, or discards it if ``file`` is None."""
    started = wait.deadline - limits.stall_seconds
    received = small = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Malformed("The body ended early: it is shorter than its Content-Length.")
        chunk = message.get("body", b"")
        received += len(chunk)
        if file is not None:
            file.write(chunk)
        if not message.get("more_body") or received >= length:
            return
        small += len(chunk) < SMALL_MESSAGE
        if small > MAX_SMALL_MESSAGES:
            await asyncio.sleep(SMALL_PAUSE)
        allowed = limits.stall_seconds + received / limits.min_rate
        now = asyncio.get_running_loop().time()
        wait.deadline = min(started + min(allowed, limits.body_seconds), now + limits.stall_seconds)


def _too_large(limit: int, limits: Limits) -> TooLarge:
    others = {MAX_FORM: "the limit of a form", MAX_CALL: "the limit of a model call"}
    limit_name = "PLAYHEAD_MAX_BODY" if limit == limits.max_body else others[limit]
    return TooLarge(f"The body is larger than {limit:,} bytes ({limit_name}). Send less.", max_body=limit)
