"""Model calls are carried out by another process, each by a thread of its own."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from io import BytesIO
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from historyapp.front import call_process, calls
from historyapp.front.calls import CallProcess
from historyapp.front.outbox import ClientGone, Outbox
from historyapp.front.pools import Client
from historyapp.front.unread import UnreadBytes
from historyapp.services.keys import on_credential
from historyapp.wire.problems import ServerFailed
from tests.front.limits import small_limits

SECONDS = 10


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallProcess]:
    monkeypatch.setattr(calls, "MODULE", "tests.front.call_app")
    process = CallProcess(60)
    yield process
    process.stop()


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    loop = asyncio.new_event_loop()
    yield Outbox(loop, UnreadBytes(small_limits()), Client(b"Ann", b"Ann"))
    loop.close()


def messages(process: CallProcess, outbox: Outbox, path: str = "/", body: bytes = b"") -> Any:
    environ = {"PATH_INFO": path, "wsgi.input": BytesIO(body), "wsgi.errors": None}
    return process.carry_out(environ, outbox, 0.0)


def process_id(response: list[Any]) -> int:
    return int(dict(dict(response)["head"][1])["X-Process"])


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_calls_wait_at_the_same_time_in_one_process(process: CallProcess, outbox: Outbox) -> None:
    list(messages(process, outbox))  # starts the process
    started = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        bodies = [str(number).encode() for number in range(8)]
        responses = list(threads.map(lambda body: list(messages(process, outbox, body=body)), bodies))
    assert time.monotonic() - started < 8 * 0.3
    assert [dict(response)["piece"] for response in responses] == bodies
    assert len(set(map(process_id, responses))) == 1
    assert process_id(responses[0]) != os.getpid()


@pytest.mark.parametrize("leaves_early", [True, False])
def test_a_client_that_leaves_cancels_its_call_only(
    process: CallProcess, outbox: Outbox, tmp_path: Path, leaves_early: bool
) -> None:
    file = tmp_path / "report"
    stream = messages(process, outbox, "/stream", str(file).encode())
    if leaves_early:
        outbox.stop_reading()
    else:
        assert next(stream)[1][2] is True
        assert next(stream) == ("piece", b".")
        assert not file.exists()
        outbox.stop_reading()
    with pytest.raises(ClientGone):
        list(stream)
    wait_for(file.exists)
    other = Outbox(outbox._loop, UnreadBytes(small_limits()), Client(b"Bob", b"Bob"))
    assert dict(messages(process, other, body=b"x"))["piece"] == b"x"


def test_a_response_that_is_not_read_to_its_end_cancels_its_call(
    process: CallProcess, outbox: Outbox, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    stream = messages(process, outbox, "/stream", str(file).encode())
    next(stream)
    stream.close()
    wait_for(file.exists)


def test_the_end_of_the_process_fails_its_calls_and_the_next_call_starts_another(
    process: CallProcess, outbox: Outbox
) -> None:
    first = process_id(list(messages(process, outbox)))
    with pytest.raises(ServerFailed, match="has ended"):
        list(messages(process, outbox, "/end"))
    second = process_id(list(messages(process, outbox)))
    os.kill(second, signal.SIGKILL)
    third = process_id(list(messages(process, outbox)))
    assert len({first, second, third}) == 3


def test_an_idle_process_ends_and_the_next_call_starts_another(outbox: Outbox, process: CallProcess) -> None:
    process = CallProcess(0.01)
    first = process_id(list(messages(process, outbox)))
    time.sleep(0.2)
    assert process_id(list(messages(process, outbox))) != first
    process.stop()


def test_a_client_that_left_before_its_call_began_is_no_error_of_the_call() -> None:
    own_end, other_end = Pipe()

    def send(kind: str, content: object = None) -> None:
        other_end.send((kind, content))

    own_end.close()
    with pytest.raises(BrokenPipeError):
        send("head")

    def begin() -> None:
        call_process.begin_call(send, 0.0)
        notify = on_credential.get()
        assert notify
        notify(b"project")
        call_process.send_of_call.set(send)
        call_process._count("count_entries", 1)

    with other_end:
        copy_context().run(begin)
