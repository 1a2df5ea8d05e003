"""A large request is carried out by another process, which may be killed."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from historyapp import child, meters
from historyapp.api.parsing import MANY_CONTAINERS, parse_json
from historyapp.core import json_counts
from historyapp.core.errors import Invalid
from historyapp.core.json import dump_json
from historyapp.core.json_counts import MANY_VALUES, holds_many_digits
from historyapp.front import large_requests
from historyapp.front.application import Front
from historyapp.front.large_requests import RequestProcess, RequestProcesses, count_here
from historyapp.front.outbox import Outbox
from historyapp.front.pool_names import LARGE_REQUESTS
from historyapp.front.pools import Client
from historyapp.front.process_messages import MAX_PART, Message
from historyapp.front.unread import UnreadBytes
from historyapp.models import Project
from historyapp.models.fields import read_json, sized_json
from historyapp.models.large_reads import LargeRead, RequestRead, read_for, request_read
from historyapp.models.long_rows import MAX_READ, bytes_left, count_read
from historyapp.services.keys import create_key, notify_of_credential, record_use
from historyapp.services.transactions import waiting_briefly, writing
from historyapp.wire.problems import ServerFailed, ServerUnavailable
from tests.front.limits import small_limits
from tests.front.one_request import get

BOB = Client(b"Bob's key", b"Bob's")


@pytest.fixture(autouse=True)
def _small_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_requests, "MODULE", "tests.front.request_app")
    monkeypatch.setattr(child, "MEMORY_CHECK_SECONDS", 0.02)


@pytest.fixture
def process() -> Iterator[RequestProcess]:
    process = RequestProcess(60)
    yield process
    process.stop()


def carried_out(process: RequestProcess, path: str = "/", body: bytes = b"") -> dict[str, Any]:
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "wsgi.input": BytesIO(body),
        "wsgi.errors": None,
    }
    messages = list(process.carry_out(environ, 0.0))
    pieces = b"".join(content for kind, content in messages if kind == "body")
    return {**dict(messages), "kinds": [kind for kind, _ in messages], "body": pieces}


def process_id(response: dict[str, Any]) -> int:
    return int(dict(response["head"][1])["X-Process"])


def test_a_request_is_carried_out_with_its_body_by_another_process(process: RequestProcess) -> None:
    body = b"x" * (MAX_PART + 1)
    response = carried_out(process, body=body)
    assert response["kinds"] == ["owner", "count", "head", "body", "body", "end"]
    assert (response["owner"], response["head"][0], response["body"]) == (b"alice", 201, body + b"!")
    assert process_id(response) != os.getpid()
    assert process_id(carried_out(process)) == process_id(response)


def test_a_request_that_computes_too_long_is_stopped_and_the_next_one_is_carried_out(
    process: RequestProcess,
) -> None:
    with pytest.raises(Invalid, match="seconds of processor time and was stopped"):
        carried_out(process, "/compute")
    process.stop()
    assert carried_out(process)["body"] == b"!"


def test_a_request_that_takes_too_much_memory_is_stopped(
    process: RequestProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(process)
    monkeypatch.setattr(large_requests, "MAX_MEMORY", 120 << 20)
    with pytest.raises((Invalid, ServerFailed)):
        list(_filled(process))


def _filled(process: RequestProcess) -> Iterator[dict[str, Any]]:
    while True:
        yield carried_out(process, "/fill", b"40000000")


def test_a_process_that_has_grown_is_replaced(
    process: RequestProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = process_id(carried_out(process))
    monkeypatch.setattr(large_requests, "MAX_KEPT_MEMORY", 0)
    assert process_id(carried_out(process)) == first
    assert process_id(carried_out(process)) != first


def test_the_end_of_a_process_is_an_error_of_its_request_only(process: RequestProcess) -> None:
    first = process_id(carried_out(process))
    with pytest.raises(ServerFailed, match="has ended"):
        carried_out(process, "/end")
    second = process_id(carried_out(process))
    os.kill(second, signal.SIGKILL)
    time.sleep(0.05)
    third = carried_out(process)
    assert len({first, second, process_id(third)}) == 3


def test_a_request_that_has_written_is_not_to_be_repeated_if_its_process_ends(
    process: RequestProcess,
) -> None:
    with pytest.raises(ServerFailed, match="stored something"):
        carried_out(process, "/written")


@pytest.mark.django_db(transaction=True)
def test_a_request_reports_its_first_commit() -> None:
    reported = list[int]()
    token = request_read.set(RequestRead(on_write=lambda: reported.append(1)))
    with writing():
        Project.objects.create(name="Alice's")
        assert not reported
    assert reported
    request_read.reset(token)


def test_an_idle_process_ends_and_the_next_request_starts_another(process: RequestProcess) -> None:
    process = RequestProcess(0.01)
    first = process_id(carried_out(process))
    end = time.monotonic() + 10
    while Path(f"/proc/{first}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert process_id(carried_out(process)) != first
    process.stop()


def test_a_process_whose_request_was_broken_off_is_killed() -> None:
    processes = RequestProcesses(60)
    with processes.process() as process:
        first = process_id(carried_out(process))
    with suppress(KeyError), processes.process() as process:
        assert process_id(carried_out(process)) == first
        raise KeyError
    with processes.process() as process:
        assert process_id(carried_out(process)) != first
        process.stop()


def test_the_next_request_gets_an_idle_process_and_not_one_that_has_ended() -> None:
    processes = RequestProcesses(60)
    with processes.process() as ended, processes.process() as idle:  # the second one ends first
        carried_out(idle)
        carried_out(ended)
        ended.stop()
    with processes.process() as process:
        assert process is idle
        idle.stop()


def test_a_request_that_waits_for_its_reader_gives_its_process_to_another_one() -> None:
    """Up to four such requests of a project had four processes."""
    loop = asyncio.new_event_loop()
    processes, outbox = RequestProcesses(60), Outbox(loop, UnreadBytes(small_limits()), BOB)
    with processes.process(), processes.process() as slow:
        first = process_id(carried_out(slow))
        with processes.lending_process(slow, nullcontext, outbox.abort):
            assert not outbox.abandoned
            with processes.process():
                assert (outbox.abandoned, outbox.failed) == (True, True)
        assert process_id(carried_out(slow)) != first
        slow.stop()
    loop.close()


class LendingOutbox:
    """Records when its thread is lent."""

    def __init__(self) -> None:
        self.lent, self.events = threading.Event(), list[str]()

    @contextmanager
    def lending_thread(self) -> Iterator[None]:
        self.events.append("lent")
        self.lent.set()
        yield
        self.events.append("returned")

    def abort(self) -> None:
        raise AssertionError


def waits(processes: RequestProcesses, outbox: Any, seconds: bytes) -> list[str]:
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/wait", "wsgi.input": BytesIO(seconds)}
    return [kind for kind, _ in processes.carry_out(environ, outbox, 0.0)]


def test_a_request_lends_its_thread_while_it_waits_for_a_provider() -> None:
    processes, outbox = RequestProcesses(60), LendingOutbox()
    assert waits(processes, outbox, b"0") == ["owner", "count", "head", "body", "end"]
    assert outbox.events == ["lent", "returned"]
    with processes.process() as process:
        process.stop()


def test_a_request_that_waits_for_a_provider_gives_its_process_to_another_one() -> None:
    """It kept the process for up to 15 seconds, in which large requests of others waited."""
    processes, outbox = RequestProcesses(60), LendingOutbox()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(waits, processes, outbox, b"60")
        assert outbox.lent.wait(30)
        with processes.process(), processes.process():
            error = waiting.exception(30)
    assert isinstance(error, ServerUnavailable)
    assert error.detail.startswith("Another large request needed the process")
    assert error.retry_after == 10


def test_what_another_process_counts_is_counted_here() -> None:
    def total() -> float:
        return meters.registry.get_sample_value("playhead_entries_appended_total") or 0

    before = total()
    count_here(("count_entries", 3))
    assert total() == before + 3


def test_a_process_without_metrics_forwards_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[Any]()
    monkeypatch.setattr(meters._Forwarding, "to", None)
    meters.forward_to(lambda *count: counts.append(count))
    meters.count_entries(2)
    meters.count_request("GET", "/", 200, 0.1)
    meters.count_write(0.2)
    assert counts == [
        ("count_entries", 2),
        ("count_request", "GET", "/", 200, 0.1),
        ("count_write", 0.2),
    ]


@pytest.fixture
def read(settings: Any) -> Iterator[RequestRead]:
    settings.PLAYHEAD_LARGE_REQUEST = 1000
    read = RequestRead(may_move=True)
    tokens = request_read.set(read), bytes_left.set(MAX_READ)
    yield read
    request_read.reset(tokens[0])
    bytes_left.reset(tokens[1])


def test_a_request_that_reads_much_moves_to_another_process(read: RequestRead) -> None:
    count_read(1000)
    with pytest.raises(LargeRead):
        count_read(1)


MANY_OBJECTS = b"[%s0]" % (b"{}," * MANY_CONTAINERS)
MANY_LONG_NUMBERS = b"[%s0]" % (b"%s," % (b"9" * 1000) * 300)
MANY_NUMBERS = b"[%s0]" % (b"1," * MANY_VALUES)


@pytest.mark.parametrize("body", [MANY_OBJECTS, MANY_LONG_NUMBERS, MANY_NUMBERS])
def test_a_request_whose_body_takes_long_to_handle_moves_to_another_process(
    body: bytes, read: RequestRead
) -> None:
    with pytest.raises(LargeRead):
        parse_json(body)
    read.may_move = False
    assert parse_json(body)[-1] == 0


def test_a_request_that_reads_many_digits_moves_to_another_process(settings: Any, read: RequestRead) -> None:
    settings.PLAYHEAD_LARGE_REQUEST = 1_000_000
    stored = MANY_LONG_NUMBERS.decode()
    with pytest.raises(LargeRead):
        read_json(stored)
    read.may_move = False
    assert read_json(stored)[-1] == 0


def test_digits_in_a_string_do_not_make_many_short_strings_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each string of the text was visited: 1.5 s of processor time for 8 MB."""
    text = f'["{"9" * 210_000}"' + ',""' * 1_000 + "]"
    monkeypatch.setattr(json_counts, "_outside_of_strings", None)
    assert not holds_many_digits(text)
    assert holds_many_digits(f"{text[:-1]},{'9' * 110_000}]")


def test_a_request_that_reads_an_entry_of_many_values_moves_before_it_reads_them(read: RequestRead) -> None:
    stored = dump_json({str(number): 1 for number in range(MANY_VALUES + 1)})
    with pytest.raises(LargeRead):
        sized_json(stored)
    read.may_move = False
    assert len(sized_json(stored)[0]) == MANY_VALUES + 1


def test_a_request_with_long_texts_does_not_move(read: RequestRead) -> None:
    for text in ("{}[]," * MANY_VALUES, "9" * 200_000, "x1" * 200_000):
        assert parse_json(dump_json([text]).encode()) == [text]


@pytest.mark.django_db(transaction=True)
def test_a_request_that_has_written_does_not_move(read: RequestRead) -> None:
    with suppress(LargeRead), writing():
        Project.objects.create(name="Alice's")
        count_read(1001)
    assert not Project.objects.exists()
    with writing():
        Project.objects.create(name="Alice's")
    count_read(1001)


@pytest.mark.django_db(transaction=True)
def test_a_request_moves_although_its_key_was_not_used_for_a_minute(read: RequestRead) -> None:
    """Eight such requests took 760 MB in the web process."""
    key, _ = create_key(Project.objects.create(name="Alice's"), "agent")
    read.may_move = True
    record_use(key, timezone.now())
    with waiting_briefly(0.1), writing():
        pass  # as when a read adds to an index
    with pytest.raises(LargeRead):
        count_read(1001)


def test_what_moves_counts_for_the_project_that_is_read(settings: Any) -> None:
    """One member with a key and a browser session took both processes. Others got 503 after 20 seconds."""
    settings.PLAYHEAD_LARGE_REQUEST = 1000
    owners = list[bytes]()

    class Recorder(RequestProcesses):
        def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
            owners.extend(front._pools[LARGE_REQUESTS]._busy_by_owner)
            yield "owner", b"person 1"
            owners.extend(front._pools[LARGE_REQUESTS]._busy_by_owner)
            with outbox.lending_thread():
                assert not front._pools[LARGE_REQUESTS]._busy, "others run while it waits for its reader"
            owners.append(b"end")
            yield "head", (200, [], False)
            yield "end", None

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        notify_of_credential(b"person 1")
        read_for(b"project")
        count_read(1001)
        return [b""]

    front = Front(application, small_limits(), 1, {LARGE_REQUESTS: Recorder(60)})
    asyncio.run(get(front))
    assert owners == [b"project", b"project", b"end"]
