"""Reading a request's body before a thread is taken, with limits on its size and its time."""

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from historyapp.front.deadlines import ClientWait, Deadlines
from historyapp.front.limits import Limits
from historyapp.wire.problems import BodyTooSlow, Malformed, ServerUnavailable, TooLarge

Receive = Callable[[], Awaitable[dict[str, Any]]]

IN_MEMORY = 1 << 18
"""Longer bodies go to a temporary file, so that many slow ones do not fill the memory."""
MOST_FORM = 1 << 20
"""The most bytes of a form of a page: Django makes many small objects of it before it knows who sent it."""
READ_AWAY = 4
"""A body of up to this many times the limit is read before it is refused.

Most clients look for an answer only after all is sent. The sender of a longer one sees the connection close.
"""


def most_bytes(path: str, media_type: bytes, limits: Limits) -> int:
    """The most bytes that a body for this address may have."""
    may_be_long = path.startswith("/api/") or path == "/imports"
    is_form = media_type.lower().startswith(b"application/x-www-form-urlencoded")
    return limits.max_body if may_be_long and not is_form else min(MOST_FORM, limits.max_body)


async def read_body(
    length: int, most: int, receive: Receive, limits: Limits, deadlines: Deadlines
) -> IO[bytes]:
    """The whole body, from its beginning.

    Args:
        length: of the body, as its sender announced it.
        most: the most bytes that are accepted.

    Raises:
        TooLarge: beyond ``most`` bytes.
        BodyTooSlow: when it stalls, is slower than ``min_rate``, or takes longer than ``body_seconds``.
        Malformed: when the client sends no more of it.
        ServerUnavailable: when the server stops meanwhile.
    """
    if length > READ_AWAY * limits.max_body:
        raise _too_large(most, limits)
    wait = deadlines.begin(limits.stall_seconds)
    try:
        if length > most:
            await _receive(length, receive, limits, wait, None)
            raise _too_large(most, limits)
        return await _receive_file(length, receive, limits, wait)
    except asyncio.CancelledError:
        if not wait.expired:
            raise
        wait.task.uncancel()
        if deadlines.stopping:
            raise ServerUnavailable("The server stops. Send the request again.", retry_after=2) from None
        raise BodyTooSlow(
            f"The body did not arrive in time. Send at least {limits.min_rate:,} bytes a second, all of it "
            f"within {limits.body_seconds:g} seconds, without a pause of {limits.stall_seconds:g} seconds."
        ) from None
    finally:
        deadlines.end(wait)


async def _receive_file(length: int, receive: Receive, limits: Limits, wait: ClientWait) -> IO[bytes]:
    if length <= IN_MEMORY:
        memory = BytesIO()
        await _receive(length, receive, limits, wait, memory)
        memory.seek(0)
        return memory
    file = cast(IO[bytes], SpooledTemporaryFile(max_size=IN_MEMORY))  # noqa: SIM115  the request closes it
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
    """Receives the body into ``file``, or drops it."""
    begun = wait.deadline - limits.stall_seconds
    received = 0
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
        earned = limits.stall_seconds + received / limits.min_rate
        now = asyncio.get_running_loop().time()
        wait.deadline = min(begun + min(earned, limits.body_seconds), now + limits.stall_seconds)


def _too_large(most: int, limits: Limits) -> TooLarge:
    which = "PLAYHEAD_MAX_BODY" if most == limits.max_body else "the limit of a form"
    return TooLarge(f"The body is larger than {most:,} bytes ({which}). Send less.", max_body=most)
