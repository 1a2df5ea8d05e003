"""How clients are identified, and what one client may use at a time."""

import asyncio
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from historyapp.asgi import make_front
from historyapp.front.all_pools import CALL_THREADS, SPARE_CALL_THREADS
from historyapp.front.application import Front
from historyapp.front.limits import MAX_CREDENTIALS, KnownClients, client_of, credential_of
from historyapp.front.pools import Client
from historyapp.services.keys import notify_of_credential
from historyapp.wire.problems import TooManyRequests
from tests.front.limits import small_limits
from tests.front.one_request import get

API = "/api/v1/sessions"


@pytest.mark.parametrize("header", [b"bearer k", b"BEARER k", b"Bearer   k ", b"Bearer \xa0k\x85"])
def test_a_key_is_one_client_in_any_notation_of_its_header(header: bytes) -> None:
    assert client_of(API, header, "10.0.0.1") == client_of(API, b"Bearer k", "10.0.0.2")


@pytest.mark.parametrize("header", [b"", b"Bearer ", b"Basic k", b"k"])
def test_without_a_key_the_address_is_the_client(header: bytes) -> None:
    assert client_of(API, header, "10.0.0.1") == client_of(API, b"", "10.0.0.1")
    assert client_of(API, header, "10.0.0.1") != client_of(API, b"", "10.0.0.2")


def test_all_readers_of_a_share_link_are_one_client() -> None:
    page = client_of("/s/token/", b"", "10.0.0.1")
    assert page == client_of("/s/token/sessions/1/steps", b"Bearer k", "10.0.0.2")
    assert page not in (client_of("/s/another/", b"", "10.0.0.1"), client_of("/", b"", "10.0.0.1"))


def test_the_client_of_a_page_request_is_its_address_with_any_key() -> None:
    """Otherwise somebody who is signed in could be a new client with each request."""
    assert client_of("/sessions", b"Bearer k", "10.0.0.1") == client_of("/sessions", b"", "10.0.0.1")


def test_an_unknown_key_is_counted_by_its_address_until_it_is_found() -> None:
    known, project = KnownClients(), uuid4().bytes
    address = Client(b"10.0.0.1", b"10.0.0.1")
    assert known.holder(b"key", "10.0.0.1") == known.holder(b"another key", "10.0.0.1") == address
    known.add(b"key", project)
    assert known.holder(b"key", "10.0.0.1") == known.holder(b"key", "10.0.0.2") == (b"key", project)
    assert known.holder(b"another key", "10.0.0.1") == address


@pytest.mark.parametrize("session", [b"found", b"invented"])
def test_a_browser_session_is_known_as_soon_as_a_request_has_found_it(session: bytes) -> None:
    project = uuid4().bytes

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["HTTP_COOKIE"].endswith("=found"):
            notify_of_credential(project)
        start_response("200 OK", [])
        return [b""]

    front = Front(application, small_limits(), 1)
    cookies = settings.SESSION_COOKIE_NAME.encode() + b"=" + session
    asyncio.run(get(front, "/", (b"cookie", cookies)))
    credential = credential_of(client_of("/", b"", "10.0.0.1"), "/", cookies)
    owner = front.known_clients.holder(credential, "10.0.0.1").owner
    assert owner == (project if session == b"found" else b"10.0.0.1")


def test_the_credential_of_a_page_is_its_browser_session() -> None:
    client = client_of("/", b"", "10.0.0.1")
    cookies = f"other=1; {settings.SESSION_COOKIE_NAME}=abc".encode()
    session = credential_of(client, "/", cookies)
    assert session not in (client, credential_of(client, "/", cookies[:-1]))
    assert session == credential_of(client_of("/", b"", "10.0.0.2"), "/sessions", cookies)
    for path, header in (("/", b""), ("/", b"other=1"), ("/api/v1/sessions", cookies), ("/s/x/", cookies)):
        assert credential_of(client, path, header) == client


def test_a_limited_number_of_clients_is_kept_in_memory() -> None:
    known = KnownClients()
    for number in range(MAX_CREDENTIALS + 1):
        known.add(b"%d" % number, uuid4().bytes)
    assert known.holder(b"0", "10.0.0.1").id == b"10.0.0.1"
    assert known.holder(b"%d" % MAX_CREDENTIALS, "10.0.0.1").id == b"%d" % MAX_CREDENTIALS


@pytest.mark.parametrize("path", ["/sign-in", "/api/v1/sessions"])
def test_strangers_leave_the_share_of_their_address_to_known_clients_and_health_checks(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Behind a proxy all of them have the same address."""
    monkeypatch.setattr("historyapp.front.application.REFUSED_SECONDS", 0)

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    async def run() -> tuple[int, int, int, int]:
        front = Front(application, small_limits(client_requests=2), 1)
        cookies = settings.SESSION_COOKIE_NAME.encode() + b"=found"
        session = credential_of(client_of("/", b"", "10.0.0.1"), "/", cookies)
        key = client_of(API, b"Bearer known", "10.0.0.1")
        front.known_clients.add(session, b"Ann")
        front.known_clients.add(key, b"a project")
        turn = asyncio.Event()
        monkeypatch.setattr(front._strangers._pace, "wait", lambda network: turn.wait())
        monkeypatch.setattr(front._strangers, "_refusal", _none)
        strangers = [
            asyncio.create_task(get(front, path, (b"authorization", b"Bearer %d" % number)))
            for number in range(20)
        ]
        for _ in range(20):
            await asyncio.sleep(0)
        found = (
            await get(front, "/", (b"cookie", cookies)),
            await get(front, API, (b"authorization", b"Bearer known")),
            await get(front, "/readyz", (b"accept", b"*/*")),
        )
        turn.set()
        return *found, (await asyncio.gather(*strangers)).count(429)

    *found, refused = asyncio.run(asyncio.wait_for(run(), 10))
    assert found == [200, 200, 200]
    assert refused == (12 if path == API else 18)


async def _none(*_: Any) -> None:
    return None


def test_neither_a_key_nor_an_address_can_use_all_model_call_threads() -> None:
    """With the default limits of a server."""
    clients = make_front(1).clients
    threads = CALL_THREADS + SPARE_CALL_THREADS

    def call_until_refused(requests: ExitStack, key: bytes, address: str) -> int:
        for made in range(threads):
            try:
                requests.enter_context(clients.admitted(key, address, size=0, is_long=True))
            except TooManyRequests:
                return made
        return threads

    with ExitStack() as requests:
        of_key = call_until_refused(requests, b"key", "10.0.0.1")
        assert 0 < of_key <= threads // 4
        of_address = of_key + sum(call_until_refused(requests, b"%d" % n, "10.0.0.1") for n in range(9))
        assert of_address == 3 * of_key < threads
        assert call_until_refused(requests, b"key of somebody else", "10.0.0.2") == of_key
