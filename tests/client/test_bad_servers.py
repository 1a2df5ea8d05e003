"""A broken server delays its client by no more than the limit, and the error names the fault."""

import asyncio
import socket
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from historyapp.client import (
    AsyncPlayhead,
    AsyncRecorder,
    ModelInput,
    NotPlayhead,
    Playhead,
    PlayheadError,
    Raise,
    Recorder,
    ServerUnavailable,
    TooLarge,
    Wait,
)
from historyapp.client.outage import Outage
from tests.client.bad_server import (
    BadServer,
    Behaviour,
    at_first,
    hanging,
    hanging_after_the_headers,
    page,
    resetting,
    sending_text,
    trickling_its_body,
    trickling_its_headers,
    trickling_its_refusal,
)

KEY = "ph_any"
ALLOWANCE = 2.0
"""Seconds that a busy machine may add."""
HTML = b"<!doctype html><html><head><title>Welcome to nginx!</title></head></html>"
SLOW = [
    hanging,
    hanging_after_the_headers,
    trickling_its_body,
    trickling_its_headers,
    trickling_its_refusal,
]

Ask = Callable[[str, float, Outage], None]


def blocking_append(url: str, timeout: float, outage: Outage) -> None:
    with Playhead(url, KEY, timeout=timeout, on_outage=outage) as playhead:
        playhead.append(uuid4(), [ModelInput(content="go")])


def blocking_recorder(url: str, timeout: float, outage: Outage) -> None:
    with Playhead(url, KEY, timeout=timeout, on_outage=outage) as playhead:
        Recorder(playhead, uuid4()).context()


def blocking_export(url: str, timeout: float, outage: Outage) -> None:
    with Playhead(url, KEY, timeout=timeout, on_outage=outage) as playhead:
        list(playhead.export(uuid4()))


def awaiting_append(url: str, timeout: float, outage: Outage) -> None:
    async def run() -> None:
        async with AsyncPlayhead(url, KEY, timeout=timeout, on_outage=outage) as playhead:
            await playhead.append(uuid4(), [ModelInput(content="go")])

    asyncio.run(run())


def awaiting_recorder(url: str, timeout: float, outage: Outage) -> None:
    async def run() -> None:
        async with AsyncPlayhead(url, KEY, timeout=timeout, on_outage=outage) as playhead:
            await AsyncRecorder(playhead, uuid4()).context()

    asyncio.run(run())


ALL = [blocking_append, blocking_recorder, awaiting_append, awaiting_recorder]
BOTH = pytest.mark.parametrize("ask", [blocking_append, awaiting_append])


@pytest.mark.parametrize("ask", ALL)
@pytest.mark.parametrize("behaviour", SLOW)
def test_a_call_never_takes_longer_than_its_deadline(ask: Ask, behaviour: Behaviour) -> None:
    with BadServer(behaviour) as server:
        started = time.monotonic()
        with pytest.raises(ServerUnavailable, match=f"no response from {server.url} in"):
            ask(server.url, 0.4, Wait(1.0))
        assert 0.3 <= time.monotonic() - started < 1.0 + ALLOWANCE


@BOTH
@pytest.mark.parametrize("behaviour", SLOW)
def test_a_timeout_is_retried(ask: Ask, behaviour: Behaviour) -> None:
    response = page(b"200 OK", b"application/json", b'{"positions": [1], "head": 1}')
    with BadServer(at_first(behaviour, response)) as server:
        ask(server.url, 0.2, Wait(60))
        assert server.requests >= 2


@BOTH
@pytest.mark.parametrize("behaviour", SLOW)
def test_without_retries_a_call_takes_as_long_as_one_attempt(ask: Ask, behaviour: Behaviour) -> None:
    with BadServer(behaviour) as server:
        started = time.monotonic()
        with pytest.raises(ServerUnavailable):
            ask(server.url, 0.5, Raise())
        assert time.monotonic() - started < 0.5 + ALLOWANCE


def test_an_address_that_is_not_resolved_in_time_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: time.sleep(5))
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match=r"playhead\.example was not found in time"):
        blocking_append("http://playhead.example", 0.4, Raise())
    assert time.monotonic() - started < 0.4 + ALLOWANCE


def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with BadServer(page(b"200 OK", b"application/json", b'{"positions": [1], "head": 1}')) as server:
        port = int(server.url.rpartition(":")[2])
        addresses = [(None, None, 0, "", ("127.0.0.2", 9)), (None, None, 0, "", ("127.0.0.1", port))]
        real = socket.getaddrinfo
        monkeypatch.setattr(
            "socket.getaddrinfo",
            lambda host, *a, **k: addresses if host == "two.example" else real(host, *a, **k),
        )
        blocking_append(f"http://two.example:{port}", 30.0, Raise(1))
        assert server.requests == 1


@pytest.mark.parametrize("ask", [blocking_append, awaiting_append, blocking_export])
def test_a_broken_response_is_retried(ask: Ask) -> None:
    with BadServer(resetting) as server:
        with pytest.raises(ServerUnavailable):
            ask(server.url, 30.0, Raise(2))
        assert server.requests == (1 if ask is blocking_export else 2)


@BOTH
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (page(b"200 OK", b"text/html; charset=utf-8", HTML), "200 with text/html, 'Welcome to nginx!'"),
        (page(b"200 OK", b"text/plain", b"It works"), "200 with text/plain, 'It works'"),
        (page(b"200 OK", b"application/json", b'{"message": "ok"}'), "positions"),
        (page(b"200 OK", b"application/json", b"[1, 2]"), "this client cannot read it"),
        (page(b"200 OK", b"application/json", b"nonsense"), "this client cannot read it"),
        (page(b"200 OK", b"application/json", b"[" * 100_000), "this client cannot read it"),
        (page(b"404 Not Found", b"text/html", HTML), "404 with text/html, 'Welcome to nginx!'"),
        (page(b"404 Not Found", b"application/json", b'{"detail": "Not Found"}'), "Not Found"),
        (page(b"401 Unauthorized", b"text/html", b"<title>Sign in</title>"), "'Sign in'"),
        (page(b"302 Found", b"text/html", b"", b"Location: https://sso.example/?s=1"), "sso.example/'"),
        (sending_text(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "200 with no content type"),
    ],
)
def test_the_error_names_a_server_that_is_not_playhead(ask: Ask, behaviour: Behaviour, words: str) -> None:
    with BadServer(behaviour) as server:
        with pytest.raises(NotPlayhead) as caught:
            ask(server.url, 30.0, Wait(5))
        assert words in str(caught.value)
        assert server.url in str(caught.value)
        assert "Check the address" in str(caught.value) or "does not follow redirects" in str(caught.value)
        assert server.requests == 1


def test_the_error_names_a_page_in_place_of_an_export() -> None:
    with BadServer(page(b"200 OK", b"text/html", HTML)) as server, pytest.raises(NotPlayhead):
        blocking_export(server.url, 30.0, Raise())


@BOTH
@pytest.mark.parametrize("status", [b"502 Bad Gateway", b"503 Service Unavailable", b"504 Gateway Timeout"])
def test_a_proxy_without_its_playhead_is_an_outage(ask: Ask, status: bytes) -> None:
    with BadServer(page(status, b"text/html", b"<title>Bad Gateway</title>")) as server:
        with pytest.raises(ServerUnavailable, match="Playhead behind it did not"):
            ask(server.url, 30.0, Raise(2))
        assert server.requests == 2


@BOTH
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (b"400 Bad Request", NotPlayhead),
        (b"413 Payload Too Large", TooLarge),
        (b"429 Too Many Requests", ServerUnavailable),
        (b"500 Internal Server Error", NotPlayhead),
    ],
)
def test_an_error_of_a_proxy_names_the_proxy(ask: Ask, status: bytes, kind: type[PlayheadError]) -> None:
    with BadServer(page(status, b"text/html", b"<h1>gateway</h1>")) as server:
        with pytest.raises(PlayheadError, match="gateway") as caught:
            ask(server.url, 30.0, Raise(1))
        assert type(caught.value) is kind
        assert caught.value.status == int(status[:3])


@BOTH
def test_a_refused_connection_is_an_outage(ask: Ask) -> None:
    started = time.monotonic()
    with pytest.raises(ServerUnavailable, match="Check that Playhead runs there") as caught:
        ask("http://127.0.0.1:9", 5.0, Raise())
    assert time.monotonic() - started < 1 + ALLOWANCE
    assert "3 attempts" in str(caught.value)
