"""Stalled clients do not slow down others: with real sockets, against ``playhead up``."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.server_process import KEY, ROOT, free_port
from tests.commands.test_up import hangup
from tests.front.large_processes import large_processes
from tests.installation import copy_migrated
from tests.llm.loopback.script import Answer
from tests.llm.loopback.server import Loopback

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("lighter")]

STALL = 3
LIMITS = {
    "PLAYHEAD_STALL_SECONDS": str(STALL),
    "PLAYHEAD_HEAD_SECONDS": "4",
    "PLAYHEAD_MAX_BODY": "200K",
    "PLAYHEAD_LARGE_REQUEST": "180K",
    "PLAYHEAD_CLIENT_REQUESTS": "40",
    "PLAYHEAD_CLIENT_CALLS": "12",
    "PLAYHEAD_CLIENT_CONNECTIONS": "120",
    "PLAYHEAD_WRITE_SECONDS": "4",
}
ANSWER_SECONDS = 4
INPUT = {"kind": "model_input", "content": "hello"}
LONG = {"kind": "model_input", "content": "line " * 30_000}
AUTHORIZATION = f"Authorization: Bearer {KEY}\r\n"


class Server:
    """A running ``playhead up`` with small limits."""

    def __init__(self, home: Path, provider: dict[str, str]) -> None:
        self.port = free_port()
        variables = {"PLAYHEAD_HOME": str(home), "PLAYHEAD_API_KEY": KEY, "DATABASE_URL": "", **LIMITS}
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-demo", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **variables, **provider, "NO_PROXY": "127.0.0.1"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout
        assert any("Playhead ready" in line for line in self.process.stdout)
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}/api/v1",
            headers={"Authorization": f"Bearer {KEY}"},
            timeout=30,
        )

    def connect(self, text: str, *, buffer: int = 0) -> socket.socket:
        """A connection on which these bytes have been sent."""
        client = socket.socket()
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(20)
        client.connect(("127.0.0.1", self.port))
        client.sendall(text.encode())
        return client

    def stalled_body(self, *, key: bool = False, path: str = "/api/v1/sessions") -> socket.socket:
        """A request that ends in the middle of its body."""
        extra = AUTHORIZATION if key else ""
        return self.connect(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: 100\r\n\r\n{{"
        )

    def session(self) -> str:
        return str(self.api.post("/sessions", json={}).raise_for_status().json()["id"])

    def append(self, session: str) -> None:
        added = self.api.post(f"/sessions/{session}/entries", json={"entries": [INPUT]})
        assert added.status_code == 201, added.text

    def check(self, session: str) -> None:
        """Checks that health, a read and an append get responses while other clients stall."""
        started = time.monotonic()
        assert httpx.get(f"http://127.0.0.1:{self.port}/healthz").text == "ok\n"
        assert self.api.get(f"/sessions/{session}").status_code == 200
        self.append(session)
        assert time.monotonic() - started < STALL

    def stop(self) -> float:
        """The seconds from the end of its terminal to the end of the server."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        assert self.process.wait(30) == 0
        return time.monotonic() - started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_migrated(tmp_path_factory.mktemp("front") / "home")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Loopback() as loopback:
        loopback.default = _answer_late
        with hangup(signal.SIG_DFL):  # these tests may run under nohup
            server = Server(folder, loopback.environment)
        server.append(server.session())  # the first append loads the tokenizer
        yield server
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.communicate(timeout=20)
        server.api.close()


def _answer_late(_: Any) -> Answer:
    time.sleep(ANSWER_SECONDS)
    return Answer(text="All is well.")


def received(client: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    data = b""
    with client:
        while piece := client.recv(1 << 16):
            data += piece
    return data


def problem_of(response: bytes) -> dict[str, Any]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    return dict(json.loads(body))


def test_stalled_bodies_and_heads_do_not_slow_other_clients(server: Server) -> None:
    session = server.session()
    stalled = [server.stalled_body(key=number % 2 > 0) for number in range(20)]
    stalled += [server.connect("GET /api/v1/sess") for _ in range(60)]
    server.check(session)
    responses = [received(client) for client in stalled]
    assert all(problem_of(response)["status"] == 408 for response in responses[:20])
    assert all(response in (b"", responses[-1]) for response in responses[20:])


def test_slow_readers_are_disconnected_and_do_not_slow_other_clients(server: Server) -> None:
    session = server.session()
    for _ in range(60):
        server.api.post(f"/sessions/{session}/entries", json={"entries": [LONG]}).raise_for_status()
    request = f"GET /api/v1/sessions/{session}/export HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}\r\n"
    whole = len(server.api.get(f"/sessions/{session}/export").content)
    readers = [server.connect(request, buffer=4096) for _ in range(8)]
    time.sleep(0.5)
    server.check(session)
    time.sleep(2 * STALL + 1)
    for reader in readers:
        try:
            assert len(received(reader)) < whole
        except ConnectionResetError:
            continue


def test_a_steady_reader_of_an_export_gets_all_of_it(server: Server) -> None:
    session = server.session()
    for _ in range(20):
        server.api.post(f"/sessions/{session}/entries", json={"entries": [LONG]}).raise_for_status()
    with server.api.stream("GET", f"/sessions/{session}/export") as response:
        lines = list(response.iter_lines())
    assert sum("line line" in line for line in lines) == 20


def test_model_calls_do_not_take_the_threads_of_short_requests(server: Server) -> None:
    session = server.session()
    server.check(session)
    calls = [server.session() for _ in range(8)]
    body = json.dumps({"model": "gpt-5-mini"})
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    clients = []
    for call in calls:
        added = {"entries": [INPUT]}
        server.api.post(f"/sessions/{call}/entries", json=added).raise_for_status()
        head = (
            f"POST /api/v1/sessions/{call}/calls HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZATION}{length}\r\n"
        )
        clients.append(server.connect(head + body))
    server.check(session)
    assert all(b"event: appended" in received(client) for client in clients)


def test_a_body_over_the_limit_is_refused_with_a_problem_document(server: Server) -> None:
    refused = server.api.post("/sessions", content=b" " * 300_000)
    assert (refused.status_code, refused.json()["max_body"]) == (413, 204_800)
    page = httpx.post(f"http://127.0.0.1:{server.port}/sign-in", content=b" " * 300_000)
    assert page.status_code == 413
    assert "PLAYHEAD_MAX_BODY" in page.text
    endless = server.connect("POST /api/v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n{")
    assert problem_of(received(endless))["status"] == 413


def test_a_content_length_of_thousands_of_digits_is_malformed(server: Server) -> None:
    head = f"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {'0' * 5000}2\r\n\r\n"
    assert problem_of(received(server.connect(head + "{}")))["status"] == 400


def test_http_2_is_not_supported(server: Server) -> None:
    """granian limits neither idle HTTP/2 connections nor the size of unpacked headers."""
    client = server.connect("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\0\0\0\x04\0\0\0\0\0")
    assert b"HTTP/2" not in (response := received(client))
    assert response == b"" or response.startswith(b"HTTP/1.1 400 ")


def test_a_long_page_is_complete(server: Server) -> None:
    session = server.session()
    for _ in range(20):
        server.api.post(f"/sessions/{session}/entries", json={"entries": [LONG]}).raise_for_status()
    page = server.api.get(f"/sessions/{session}/entries")
    assert len(page.content) > 20 * len(LONG["content"])
    assert int(page.headers["content-length"]) == len(page.content)
    assert [item["content"] for item in page.json()["items"]] == [LONG["content"]] * 20


def test_large_requests_are_carried_out_by_another_process_that_may_be_killed(server: Server) -> None:
    session, text = server.session(), "large " * 31_000
    body = {"entries": [{"kind": "model_input", "content": text}]}
    assert server.api.post(f"/sessions/{session}/entries", json=body).status_code == 201
    first = large_processes(server.process.pid)
    assert len(first) == 1
    entries = server.api.get(f"/sessions/{session}/entries")
    assert [item["content"] for item in entries.json()["items"]] == [text]
    os.kill(first[0], signal.SIGKILL)
    refused = server.api.post(f"/sessions/{session}/entries", json={"entries": [{"kind": text}]})
    assert (refused.status_code, refused.json()["type"]) == (422, "/docs/errors#not-valid")
    assert server.api.get(f"/sessions/{session}/episodes").status_code == 200
    assert large_processes(server.process.pid) != first
    wrong = {"Authorization": "Bearer ph_wrong"}
    assert server.api.post("/sessions", json={"title": text}, headers=wrong).status_code == 401


def test_a_body_that_trickles_is_refused(server: Server) -> None:
    client = server.connect(
        "POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n"
    )
    started = time.monotonic()
    while time.monotonic() - started < 4 * STALL:
        try:
            client.sendall(b" " * 10)
        except OSError:
            break
        time.sleep(0.2)
    assert time.monotonic() - started < 3 * STALL
    client.close()


def test_a_body_that_ends_early_is_refused(server: Server) -> None:
    client = server.stalled_body()
    client.shutdown(socket.SHUT_WR)
    assert "ended early" in problem_of(received(client))["detail"]


def test_a_client_with_too_many_requests_at_once_gets_429_and_others_are_served(server: Server) -> None:
    stalled = [server.stalled_body() for _ in range(40)]
    time.sleep(0.3)
    response = received(server.stalled_body())
    assert problem_of(response)["status"] == 429
    assert b"retry-after: 1" in response
    assert b"x-request-id: " in response
    server.check(server.session())
    assert all(b" 408 " in received(client) for client in stalled)


def test_requests_with_a_key_do_not_count_for_requests_without_one(server: Server) -> None:
    stalled = [server.stalled_body(key=True) for _ in range(40)]
    time.sleep(0.3)
    assert problem_of(received(server.stalled_body(key=True)))["status"] == 429
    assert httpx.get(f"http://127.0.0.1:{server.port}/sign-in").status_code == 200
    for client in stalled:
        client.close()
    end = time.monotonic() + 2 * STALL  # requests whose client has gone stop counting for its key
    while server.api.get("/sessions").status_code == 429 and time.monotonic() < end:
        time.sleep(0.05)
    assert server.api.get("/sessions").status_code == 200


def test_connections_beyond_the_limit_of_an_address_are_closed_and_requests_continue(server: Server) -> None:
    session = server.session()
    stalled = [server.stalled_body() for _ in range(10)]
    idle = [server.connect("GET /api/v1/sess") for _ in range(150)]
    end = time.monotonic() + 20  # on a busy machine the server counts before it has accepted them all
    while sum(map(is_open, idle)) >= 115 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.5)
    assert 100 <= sum(map(is_open, idle)) < 115
    assert all(map(is_open, stalled))
    server.check(session)
    for client in (*stalled, *idle):
        client.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_a_foreign_sqlite_lock_never_blocks_reads_and_blocks_writes_once(
    server: Server, folder: Path
) -> None:
    session, key = server.session(), {"Authorization": f"Bearer {KEY}"}
    url = f"http://127.0.0.1:{server.port}"

    def write() -> tuple[int, str, float]:
        started, path = time.monotonic(), f"{url}/api/v1/sessions/{session}/entries"
        response = httpx.post(path, json={"entries": [INPUT]}, headers=key, timeout=30)
        code = response.json()["type"].rpartition("#")[2]
        return response.status_code, code, time.monotonic() - started

    assert httpx.get(f"{url}/sign-in", timeout=30).status_code == 200  # the first one reads the templates
    with closing(sqlite3.connect(folder / "playhead.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(12) as writers:
            # Three times as many as threads: those that wait for a thread do not wait for SQLite once more.
            writes = [writers.submit(write) for _ in range(12)]
            time.sleep(0.3)
            assert httpx.get(f"{url}/healthz", timeout=30).text == "ok\n"
            assert httpx.get(f"{url}/sign-in", timeout=30).status_code == 200
            assert server.api.get(f"/sessions/{session}").status_code == 200
            assert server.api.get("/search", params={"q": "hello"}).status_code == 200
            time.sleep(2.2)  # longer than PLAYHEAD_TRANSACTION_SECONDS, half of the time that a write waits
            ready = httpx.get(f"{url}/readyz", timeout=30)
            assert (ready.status_code, ready.json()["parts"]["database"]) == (503, "database-locked")
            assert not any(one.done() for one in writes)
            responses = [one.result() for one in writes]
        other.execute("ROLLBACK")
    assert {(status, code) for status, code, _ in responses} == {(503, "database-locked")}
    assert [seconds for *_, seconds in responses if not 3.8 < seconds < 7] == []
    server.append(session)


def test_streams_send_changes_and_resume_after_a_disconnect(server: Server) -> None:
    session = server.session()
    whole = server.api.get("/events", params={"limit": 500}).json()
    server.append(session)
    sse = {"Accept": "text/event-stream"}
    with (
        server.api.stream("GET", f"/sessions/{session}/stream") as first,
        server.api.stream("GET", "/events", params={"after": whole["next"]}, headers=sse) as second,
    ):
        lines, all_lines = first.iter_lines(), second.iter_lines()
        assert first.headers["content-type"] == "text/event-stream"
        assert next(lines) == "retry: 1000"
        place = next(lines)
        server.append(session)
        event = next(line for line in lines if line.startswith("data: "))
        assert json.loads(event.removeprefix("data: "))["position"] == 2
        events = [json.loads(line[6:]) for line in _until(all_lines, 2) if line.startswith("data: ")]
        assert [event["position"] for event in events] == [1, 2]
        assert {event["session"] for event in events} == {session}
    again = {"Last-Event-ID": place.removeprefix("id: ")}
    with server.api.stream("GET", f"/sessions/{session}/stream", headers=again) as resumed:
        assert event in _until(resumed.iter_lines(), 1)


def _until(lines: Iterator[str], events: int) -> list[str]:
    read: list[str] = []
    while sum(line.startswith("data: ") for line in read) < events:
        read.append(next(lines))
    return read


@pytest.mark.parametrize("path", ["/", "/api/v1/sessions", "/static/nothing.css", "/api/v1/%ff%2F", "/ä"])
def test_addresses_are_decoded_like_by_django(server: Server, path: str) -> None:
    response = httpx.get(f"http://127.0.0.1:{server.port}{path}")
    expected = 302 if path == "/" else 401 if path.startswith("/api/v1/") else 404
    assert response.status_code == expected


def test_a_hangup_ends_the_server_without_waiting_for_stalled_clients(server: Server) -> None:
    stalled = [server.stalled_body() for _ in range(20)]
    stalled += [server.connect("GET /api/v1/sess") for _ in range(20)]
    stream = f"GET /api/v1/sessions/{server.session()}/stream HTTP/1.1\r\nHost: localhost\r\n"
    stalled.append(server.connect(f"{stream}{AUTHORIZATION}\r\n"))
    time.sleep(0.3)
    assert server.stop() < 5
    for client in stalled:
        client.close()
