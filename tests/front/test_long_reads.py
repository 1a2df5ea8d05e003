"""A read that takes much processor time moves to another process, wherever its thread is."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from random import random
from types import FrameType, ModuleType
from typing import Any

import pytest
from django.db import connection

from dashboard.rendering import blocks
from dashboard.views import steps
from historyapp import redis_values
from historyapp.core import entries
from historyapp.front import long_reads
from historyapp.front.application import Front
from historyapp.front.large_requests import RequestProcesses
from historyapp.front.limits import client_of
from historyapp.front.outbox import Outbox
from historyapp.front.pool_names import LARGE_REQUESTS
from historyapp.front.process_messages import Message, max_processor_seconds
from historyapp.models import sql
from historyapp.models.large_reads import read_for
from historyapp.models.vendor import on_sqlite
from historyapp.services.keys import notify_of_credential
from historyapp.services.transactions import writing
from tests.front.limits import small_limits
from tests.front.one_request import get, request

OTHER_PROCESS = 203
"""The status of responses of the other process."""


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "SECONDS", 0.05)
    monkeypatch.setattr(long_reads, "TICK", 0.01)
    monkeypatch.setattr(long_reads, "COMPUTING", (__file__, *long_reads.COMPUTING))


class OtherProcess(RequestProcesses):
    """Counts what it carries out."""

    number = 0

    def __init__(self) -> None:
        super().__init__(idle_seconds=60)

    def carry_out(self, environ: dict[str, Any], outbox: Outbox, waited: float) -> Generator[Message]:
        self.number += 1
        yield "head", (OTHER_PROCESS, [], False)
        yield "end", None


class Server:
    """A server whose requests call a function, and then get an empty response."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.calls, self.other = 0, OtherProcess()
        self._work = work
        self.front = Front(self._application, small_limits(), 1, {LARGE_REQUESTS: self.other})

    def _application(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.calls += 1
        notify_of_credential(b"alice")
        read_for(b"project")
        self._work()
        start_response("200 OK", [])
        return [b""]


def compute(seconds: float = 3.0) -> None:
    """Uses processor time in Python, without a call that could notice it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def statuses(server: Server, *paths: str) -> list[int]:
    async def all_of_them() -> list[int]:
        return [await get(server.front, path) for path in paths]

    return asyncio.run(all_of_them())


def test_a_read_that_computes_too_long_is_carried_out_by_another_process() -> None:
    assert statuses(Server(compute), "/") == [OTHER_PROCESS]


def test_the_next_read_of_the_same_path_goes_to_another_process_at_once() -> None:
    """Each read would take the same time again here."""
    server = Server(compute)
    assert statuses(server, "/", "/", "/", "/other") == [OTHER_PROCESS] * 4
    assert (server.calls, server.other.number) == (2, 4)


def test_a_read_is_tried_here_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "REMEMBERED_SECONDS", 0.0)
    server = Server(compute)
    statuses(server, "/", "/")
    assert server.calls == 2


def test_of_paths_that_have_moved_a_limited_number_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "MAX_REMEMBERED", 1)
    server = Server(compute)
    statuses(server, "/1", "/2", "/2", "/1")
    assert server.calls == 3


def test_an_error_of_one_check_does_not_end_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    computing, calls = long_reads._computing, count(1)

    def fails_at_first(watched: long_reads.Watched) -> FrameType | None:
        if next(calls) == 1:
            raise OSError
        return computing(watched)

    monkeypatch.setattr(long_reads, "_computing", fails_at_first)
    assert statuses(Server(compute), "/") == [OTHER_PROCESS]


def test_a_short_read_stays() -> None:
    assert statuses(Server(lambda: None), "/", "/") == [200, 200]


def test_a_write_is_not_interrupted() -> None:
    server = Server(lambda: compute(0.2))
    assert asyncio.run(request(server.front, "POST", "/")) == 200


def test_a_request_for_a_context_is_interrupted() -> None:
    server, path, key = Server(compute), "/api/v1/sessions/1/contexts", b"Bearer known"
    server.front.known_clients.add(client_of(path, key, ""), b"project")
    assert asyncio.run(request(server.front, "POST", path, (b"authorization", key))) == OTHER_PROCESS


def test_readers_of_a_share_link_have_one_credential_so_their_queries_are_told_apart() -> None:
    server = Server(compute)
    statuses(server, "/s/token", "/s/token", "/s/token?step=2")
    assert server.calls == 2


def test_a_read_that_has_caught_the_error_is_interrupted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "AGAIN_SECONDS", 0.05)

    def stubborn() -> None:
        try:
            compute()
        except BaseException:  # noqa: BLE001 as a finalizer does
            compute()

    assert statuses(Server(stubborn), "/") == [OTHER_PROCESS]


def test_what_must_be_done_as_a_whole_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "KEPT_WHOLE", (Path(__file__).name,))
    assert statuses(Server(lambda: compute(0.2)), "/") == [200]


def test_a_thread_is_not_interrupted_outside_of_code_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_reads, "COMPUTING", ("/nowhere",))
    assert statuses(Server(lambda: compute(0.2)), "/") == [200]


@pytest.mark.parametrize(
    ("module", "computes"),
    [
        (blocks, True),
        (entries, True),
        (sql, True),
        (steps, True),
        (redis_values, False),
    ],
)
def test_reads_can_be_interrupted_where_pages_and_entries_are_made(
    module: ModuleType, computes: bool
) -> None:
    assert str(module.__file__).startswith(long_reads.COMPUTING) == computes


@pytest.mark.django_db(transaction=True)
def test_a_transaction_is_not_interrupted() -> None:
    completed = list[bool]()

    def write() -> None:
        with writing():
            compute(0.2)
            completed.append(True)

    statuses(Server(write), "/")
    assert completed


@pytest.mark.django_db(transaction=True)
def test_a_statement_of_sqlite_is_interrupted() -> None:
    if not on_sqlite():
        pytest.skip("PostgreSQL's statements take no processor time of the web process")

    def count() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000000000) "
                "SELECT count(*) FROM n"
            )

    assert statuses(Server(count), "/") == [OTHER_PROCESS]


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_thread_serves_the_next_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruptions come at any moment, also when a read has just ended."""
    monkeypatch.setattr(long_reads, "SECONDS", 0.001)
    monkeypatch.setattr(long_reads, "TICK", 0.0003)
    monkeypatch.setattr(long_reads, "REMEMBERED_SECONDS", 0.0)
    threads = set[int]()

    def read() -> None:
        threads.add(threading.get_ident())
        with connection.cursor() as cursor:
            for _ in range(10):
                cursor.execute("SELECT 1")
                assert cursor.fetchone() == (1,)
        compute(0.004 * random())

    server = Server(read)
    found = statuses(server, *["/"] * 120)
    assert set(found) <= {200, OTHER_PROCESS}
    assert server.calls == 120
    assert len(threads) == 1
    assert 0 < server.other.number == found.count(OTHER_PROCESS)
    assert not server.front._runner._long_reads._watched


@pytest.mark.parametrize(("method", "seconds"), [("GET", 30), ("HEAD", 30), ("POST", 60)])
def test_a_read_gets_less_processor_time_than_other_large_requests(method: str, seconds: int) -> None:
    assert max_processor_seconds({"REQUEST_METHOD": method}) == seconds


@pytest.fixture(autouse=True)
def _no_connections() -> Iterator[None]:
    yield
    connection.close()
