"""Request bodies have limits of length, of memory and of disk space."""

import asyncio
import os
import tempfile
from contextlib import ExitStack
from typing import Any

import pytest

from historyapp.front.bodies import (
    ALL_IN_MEMORY,
    FIRST_BYTES,
    IN_MEMORY,
    MAX_CALL,
    MAX_FORM,
    MAX_SMALL_MESSAGES,
    SMALL_MESSAGE,
    SMALL_PAUSE,
    BodyRoom,
    max_bytes,
    read_body,
)
from historyapp.front.deadlines import Deadlines
from historyapp.wire.problems import ServerUnavailable
from tests.front.limits import MB, small_limits

MAX = 32 << 20
FORM, PARTS = b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x"
JSON = b"application/json"


@pytest.mark.parametrize(
    ("path", "media_type", "expected"),
    [
        ("/api/v1/sessions", JSON, MAX),
        ("/api/v1/imports", PARTS, MAX),
        ("/imports", PARTS, MAX),
        ("/imports", FORM, MAX_FORM),
        ("/api/v1/sessions", FORM.upper() + b"; charset=utf-8", MAX_FORM),
        ("/sign-in", FORM, MAX_FORM),
        ("/sign-in", PARTS, MAX_FORM),
        ("/sign-in", b"", MAX_FORM),
        ("/api/v1/sessions/x/calls", JSON, MAX_CALL),
    ],
)
def test_forms_and_model_calls_have_lower_limits_than_other_bodies(
    path: str, media_type: bytes, expected: int
) -> None:
    assert max_bytes(path, media_type, small_limits(max_body=MAX)) == expected


def test_bodies_in_memory_have_a_total_limit_and_further_ones_go_to_files() -> None:
    room = BodyRoom(small_limits())
    with ExitStack() as requests:
        kept = [
            requests.enter_context(room.reserve(IN_MEMORY)) for _ in range(ALL_IN_MEMORY // IN_MEMORY + 3)
        ]
        assert kept == [True] * (len(kept) - 3) + [False] * 3
    with room.reserve(IN_MEMORY) as in_memory:
        assert in_memory
    with room.reserve(IN_MEMORY + 1) as in_memory:
        assert not in_memory


def test_bodies_that_would_fill_the_disk_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced lengths count: none of these bodies has arrived."""
    fields = (MB, MB, 9000, 20, 20, 0, 0, 0, 0, 255)
    monkeypatch.setattr("historyapp.front.unread.os.statvfs", lambda _: os.statvfs_result(fields))
    room = BodyRoom(small_limits(min_free_disk=10 * MB))
    with room.reserve(6 * MB):
        with pytest.raises(ServerUnavailable, match="too little free disk space"), room.reserve(6 * MB):
            pass
        with room.reserve(4 * MB), room.reserve(1000) as in_memory:
            assert in_memory
    with room.reserve(6 * MB):
        pass


@pytest.mark.parametrize(
    ("in_memory", "size", "files"),
    [(True, FIRST_BYTES, 0), (False, FIRST_BYTES // 2, 0), (False, FIRST_BYTES, 1)],
)
def test_a_body_gets_a_file_when_more_than_its_first_bytes_have_arrived(
    in_memory: bool, size: int, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stalled body never gets one."""
    pieces = [b"a" * size, b"b" * size]
    made = []

    def temporary_file(**options: Any) -> Any:
        made.append(create(**options))
        return made[-1]

    create = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", temporary_file)

    async def receive() -> dict[str, Any]:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def run() -> bytes:
        body = await read_body(2 * size, MB, receive, small_limits(), Deadlines(), in_memory=in_memory)
        with body:
            return body.read()

    assert asyncio.run(run()) == b"a" * size + b"b" * size
    assert len(made) == files
    assert all(file.closed for file in made)


@pytest.mark.parametrize(
    ("size", "pauses"), [(1, 200 - MAX_SMALL_MESSAGES - 1), (SMALL_MESSAGE - 1, 135), (SMALL_MESSAGE, 0)]
)
def test_a_body_in_very_many_small_packets_is_received_with_pauses(
    size: int, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,500 of them in packets of one byte kept the event loop busy for everybody."""
    slept: list[float] = []
    pieces = [b"a" * size] * 200

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def receive() -> dict[str, Any]:
        piece = pieces.pop()
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def run() -> bytes:
        with await read_body(200 * size, MB, receive, small_limits(), Deadlines(), in_memory=True) as body:
            return body.read()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(run()) == b"a" * 200 * size
    assert slept == [SMALL_PAUSE] * pauses
