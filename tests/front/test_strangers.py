"""Requests without a known credential begin in turn, and those without an existing API key get no thread."""

import asyncio
import time
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from historyapp.api.root import api
from historyapp.front import strangers
from historyapp.front.application import Front
from historyapp.front.limits import client_of
from historyapp.front.strangers import API, MAX_KEYS, WITHOUT_KEY, StrangerPace
from historyapp.services.keys import hash_secret
from historyapp.wire.problems import ServerUnavailable, TooManyRequests
from tests.front.limits import small_limits
from tests.front.one_request import scope_of
from tests.front.virtual_time import run_in_virtual_time

PATH = "/api/v1/sessions"
KEY = "ph_" + "k" * 43
PROJECT = uuid4().bytes


class Server:
    """A server whose application only notes the keys of its requests, and the database of its keys."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: str = "200 OK") -> None:
        self.answered: list[str] = []
        self.queries: list[int] = []
        """The number of keys of each query."""
        self.keys: dict[str, bytes | None] = {hash_secret(KEY): PROJECT}
        self.sent: list[dict[str, Any]] = []
        self.status = status
        monkeypatch.setattr(strangers, "find_owners", self.find_owners)
        self.front = Front(self.application, small_limits(client_requests=10_000), 1)

    def find_owners(self, hashes: Collection[str]) -> dict[str, bytes | None]:
        self.queries.append(len(hashes))
        time.sleep(0.02)
        return {key_hash: self.keys[key_hash] for key_hash in hashes if key_hash in self.keys}

    def application(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.answered.append(environ.get("HTTP_AUTHORIZATION", ""))
        start_response(self.status, [])
        return [b""]

    async def ask(self, authorization: str = "", path: str = PATH, body: bytes = b"") -> int:
        """The status of a request's response."""
        statuses: list[int] = []

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)
            if "status" in message:
                statuses.append(message["status"])

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        headers = [(b"content-length", b"%d" % len(body))]
        headers += [(b"authorization", authorization.encode("latin-1"))] if authorization else []
        await self.front(scope_of("POST", path, *headers), receive, send)
        return statuses[0]

    def challenges(self) -> list[str]:
        heads = [dict(message["headers"]) for message in self.sent if "status" in message]
        return [head.get(b"www-authenticate", b"").decode() for head in heads]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


@pytest.mark.parametrize(
    "authorization",
    ["", "Basic x", "Bearer ", "Bearer short", "Bearer " + "x" * 201, "Bearer " + "é" * 20],
)
def test_a_request_without_a_key_of_the_right_form_gets_no_thread_and_no_query(
    server: Server, authorization: str
) -> None:
    assert asyncio.run(server.ask(authorization, body=b"{}")) == 401
    assert (server.answered, server.queries) == ([], [])
    (challenge,) = server.challenges()
    assert challenge.startswith('Bearer realm="playhead"')
    assert ("invalid_token" in challenge) == (len(authorization) > len("Bearer "))


def test_a_request_with_an_unknown_key_gets_no_thread(server: Server) -> None:
    assert asyncio.run(server.ask("Bearer " + "x" * 40)) == 401
    assert (server.answered, server.queries) == ([], [1])


def test_an_existing_key_is_looked_up_once(server: Server) -> None:
    async def ask() -> list[int]:
        return [await server.ask(f"Bearer {KEY}") for _ in range(3)]

    assert asyncio.run(ask()) == [200, 200, 200]
    assert server.queries == [1]
    client = client_of(PATH, f"Bearer {KEY}".encode(), "10.0.0.1")
    assert server.front.known_clients.holder(client, "10.0.0.1").owner == PROJECT


def test_keys_that_arrive_together_are_looked_up_with_few_queries(server: Server) -> None:
    async def ask() -> list[int]:
        keys = [f"Bearer {number:040}" for number in range(150)]
        return await asyncio.gather(*map(server.ask, [*keys, f"Bearer {KEY}"]))

    assert asyncio.run(ask()) == [401] * 150 + [200]
    assert sum(server.queries) == 151
    assert len(server.queries) <= 3 < MAX_KEYS


def test_a_revoked_key_is_refused_by_the_application_and_counts_for_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch, "401 Unauthorized")
    client = client_of(PATH, f"Bearer {KEY}".encode(), "10.0.0.1")
    server.front.known_clients.add(client, PROJECT)
    server.keys[hash_secret(KEY)] = None
    assert asyncio.run(server.ask(f"Bearer {KEY}")) == 401
    assert client not in server.front.known_clients
    assert asyncio.run(server.ask(f"Bearer {KEY}")) == 401
    assert (len(server.answered), server.queries) == (2, [1])


def test_without_the_database_the_application_decides(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "find_owners", lambda hashes: 1 / 0)
    assert asyncio.run(server.ask(f"Bearer {KEY}")) == 200


def test_a_database_that_does_not_answer_is_a_503(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "find_owners", lambda hashes: time.sleep(0.5))
    server.front._strangers._lookup._max_wait = 0.1
    assert asyncio.run(server.ask(f"Bearer {KEY}")) == 503


def test_only_the_document_and_its_page_need_no_key(server: Server) -> None:
    for path in (*WITHOUT_KEY, "/", "/sign-in", "/static/x.css"):
        assert asyncio.run(server.ask("", path)) == 200
    for path in api.get_openapi_schema()["paths"]:
        assert path.startswith(API)
        assert not path.startswith(WITHOUT_KEY)


def test_strangers_begin_at_a_limited_rate_and_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def times() -> tuple[float, float]:
        now = asyncio.get_running_loop().time
        monkeypatch.setattr(strangers, "time", SimpleNamespace(monotonic=now))
        pace, started = StrangerPace(rate=200, burst=10), now()
        flood = [asyncio.create_task(pace.wait("10.0.0.1")) for _ in range(110)]
        await asyncio.sleep(0.05)
        asked = now()
        await pace.wait("10.0.0.2")
        waited = now() - asked
        await asyncio.gather(*flood)
        return waited, now() - started

    waited, whole = run_in_virtual_time(times())
    assert waited < 0.02
    assert whole == pytest.approx(0.5, abs=0.02)


def test_a_full_queue_refuses_only_addresses_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MAX_WAITING", 3)

    async def ask() -> None:
        pace = StrangerPace(rate=1, burst=0)
        waiting = [asyncio.create_task(pace.wait("10.0.0.1")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await pace.wait("10.0.0.1")
        other = asyncio.create_task(pace.wait("10.0.0.2"))
        await asyncio.sleep(0)
        pace.stop()
        for task in (*waiting, other):
            with pytest.raises(ServerUnavailable):
                await task

    asyncio.run(ask())


def test_a_stranger_with_too_many_requests_waits_for_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise refused requests could be repeated as fast as the event loop answers."""
    server = Server(monkeypatch)
    server.front.clients._limits = small_limits(client_requests=0)
    for path, is_known in (("/", False), (PATH, True)):
        server.front.known_clients.add(client_of(PATH, f"Bearer {KEY}".encode(), "10.0.0.1"), PROJECT)
        started = time.monotonic()
        assert asyncio.run(server.ask(f"Bearer {KEY}", path)) == 429
        assert (time.monotonic() - started < 0.9) == is_known
