"""Model calls are carried out by another process, each by a thread of its own."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from io import BytesIO
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from historyapp.child import Child
from historyapp.core.errors import Invalid
from historyapp.core.slots import Slots
from historyapp.front import model_call_process, model_calls
from historyapp.front.model_call_process import ModelCallServer
from historyapp.front.model_calls import ModelCallProcess
from historyapp.front.outbox import ClientGone, Outbox
from historyapp.front.pools import Client
from historyapp.front.unread import UnreadBytes
from historyapp.models import large_reads
from historyapp.models.long_rows import count_read
from historyapp.services.keys import on_credential
from historyapp.wire.problems import ServerFailed, ServerUnavailable
from tests.front.limits import small_limits

SECONDS = 10


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelCallProcess]:
    monkeypatch.setattr(model_calls, "MODULE", "tests.front.model_call_app")
    process = ModelCallProcess(60)
    yield process
    stop(process)


def stop(process: ModelCallProcess) -> None:
    process._process.stop()


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    loop = asyncio.new_event_loop()
    yield Outbox(loop, UnreadBytes(small_limits()), Client(b"Ann", b"Ann"))
    loop.close()


def messages(process: ModelCallProcess, outbox: Outbox, path: str = "/", body: bytes = b"") -> Any:
    environ = {"PATH_INFO": path, "wsgi.input": BytesIO(body), "wsgi.errors": None}
    return process.carry_out(environ, outbox, 0.0)


def process_id(response: list[Any]) -> int:
    return int(dict(dict(response)["head"][1])["X-Process"])


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_calls_wait_at_the_same_time_in_one_process(process: ModelCallProcess, outbox: Outbox) -> None:
    list(messages(process, outbox))  # starts the process
    started = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        bodies = [str(number).encode() for number in range(8)]
        responses = list(threads.map(lambda body: list(messages(process, outbox, body=body)), bodies))
    assert time.monotonic() - started < 8 * 0.3
    assert [dict(response)["body"] for response in responses] == bodies
    assert len(set(map(process_id, responses))) == 1
    assert process_id(responses[0]) != os.getpid()


@pytest.mark.parametrize("leaves_early", [True, False])
def test_a_client_that_leaves_cancels_its_call_only(
    process: ModelCallProcess, outbox: Outbox, tmp_path: Path, leaves_early: bool
) -> None:
    file = tmp_path / "report"
    stream = messages(process, outbox, "/stream", str(file).encode())
    if leaves_early:
        outbox.stop_reading()
    else:
        assert next(stream)[1][2] is True
        assert next(stream) == ("body", b".")
        assert not file.exists()
        outbox.stop_reading()
    with pytest.raises(ClientGone):
        list(stream)
    wait_for(file.exists)
    other = Outbox(outbox._loop, UnreadBytes(small_limits()), Client(b"Bob", b"Bob"))
    assert dict(messages(process, other, body=b"x"))["body"] == b"x"


def test_a_response_that_is_not_read_to_its_end_cancels_its_call(
    process: ModelCallProcess, outbox: Outbox, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    stream = messages(process, outbox, "/stream", str(file).encode())
    next(stream)
    stream.close()
    wait_for(file.exists)


def test_a_stop_cancels_all_calls_and_waits_until_they_have_ended(
    process: ModelCallProcess, outbox: Outbox, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    stream = messages(process, outbox, "/stream", str(file).encode())
    pid = process_id([next(stream)])
    os.kill(pid, signal.SIGTERM)  # as the end of the web process does
    assert [next(stream), next(stream)] == [("body", b".")] * 2
    process.cancel()
    with pytest.raises(ServerUnavailable, match="not recorded, but may be billed"):
        list(stream)
    with pytest.raises(ServerUnavailable, match="has stopped"):
        list(messages(process, outbox, "/stream", b"/dev/null"))
    process.end()
    assert file.read_text() == "closed"
    assert not Path(f"/proc/{pid}").exists()


def test_the_end_of_the_process_fails_its_calls_and_the_next_call_starts_another(
    process: ModelCallProcess, outbox: Outbox
) -> None:
    first = process_id(list(messages(process, outbox)))
    with pytest.raises(ServerFailed, match="has ended"):
        list(messages(process, outbox, "/end"))
    second = process_id(list(messages(process, outbox)))
    os.kill(second, signal.SIGKILL)
    third = process_id(list(messages(process, outbox)))
    assert len({first, second, third}) == 3


def test_a_call_that_fails_is_no_end_of_the_process(process: ModelCallProcess, outbox: Outbox) -> None:
    first = process_id(list(messages(process, outbox)))
    with pytest.raises(ServerFailed, match="call failed"):
        list(messages(process, outbox, "/fail"))
    assert process_id(list(messages(process, outbox))) == first


def test_a_process_that_has_grown_gets_no_further_calls_and_ends_those_that_it_has(
    process: ModelCallProcess, outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = messages(process, outbox, "/stream", str(tmp_path / "report").encode())
    assert next(running)[1][0] == 200
    monkeypatch.setattr(model_calls, "MAX_KEPT_MEMORY", 0)
    first, second, third = (process_id(list(messages(process, outbox))) for _ in range(3))
    assert first != second == third, "a second one is kept while the first one has calls"
    assert next(running) == ("body", b".")
    running.close()
    wait_for(lambda: not Path(f"/proc/{first}").exists())
    assert process_id(list(messages(process, outbox))) == second
    assert process._process.child is None


def test_a_call_goes_to_another_process_if_a_grown_one_has_just_been_retired(
    process: ModelCallProcess, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process_id(list(messages(process, outbox)))
    running = process._process._running

    def retire_first() -> Child:
        child = running()
        if child.pid == first:
            process._process.retire(child)
        return child

    monkeypatch.setattr(process._process, "_running", retire_first)
    assert process_id(list(messages(process, outbox))) != first


def test_a_call_without_a_free_file_is_refused_and_the_process_goes_on(
    process: ModelCallProcess, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process_id(list(messages(process, outbox)))
    with monkeypatch.context() as patch:
        patch.setattr("socket.socketpair", Mock(side_effect=OSError("too many open files")))
        with pytest.raises(ServerUnavailable, match="could not be started"):
            list(messages(process, outbox))
    assert process_id(list(messages(process, outbox))) == first


def test_a_call_for_which_the_process_has_no_file_left_ends_alone(outbox: Outbox) -> None:
    own_end, other_end = Pipe()
    own, theirs = socket.socketpair()
    server = ModelCallServer(lambda environ, start_response: [], lambda send, waited: nullcontext())
    with own_end, other_end, own, theirs:
        own_end.send(({}, b"", b"owner", 0.0))
        socket.socket(fileno=os.dup(own_end.fileno())).send(b".")  # without a descriptor
        server._receive(other_end)
        assert server._calls == 0


def test_an_idle_process_ends_and_the_next_call_starts_another(
    outbox: Outbox, process: ModelCallProcess
) -> None:
    process = ModelCallProcess(0.01)
    first = process_id(list(messages(process, outbox)))
    wait_for(lambda: not Path(f"/proc/{first}").exists())
    assert process_id(list(messages(process, outbox))) != first
    stop(process)


def test_a_client_that_left_before_its_call_began_is_no_error_of_the_call() -> None:
    own_end, other_end = Pipe()

    def send(kind: str, content: object = None) -> None:
        other_end.send((kind, content))

    own_end.close()
    with pytest.raises(BrokenPipeError):
        send("head")

    def begin() -> None:
        with model_call_process.begin_call(send, 0.0):
            notify = on_credential.get()
            assert notify
            notify(b"project")
        model_call_process.send_of_call.set(send)
        model_call_process._count("count_entries", 1)

    with other_end:
        copy_context().run(begin)


def test_a_call_that_fails_gives_its_slot_for_large_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one such call of each of three projects ended all other large ones."""
    slots = Slots(3, of_owner=1, waiting=0)
    monkeypatch.setattr(large_reads, "LARGE_READS", slots)

    def send(kind: str, content: object = None) -> None:
        pass

    def call() -> None:
        with model_call_process.begin_call(send, 0.0):
            large_reads.read_for(b"project")
            count_read(large_reads.VERY_LARGE + 1)
            assert not slots.take_at_once(b"project")
            raise Invalid("The context cannot be built.")

    with pytest.raises(Invalid):
        copy_context().run(call)
    assert slots.take_at_once(b"project")
