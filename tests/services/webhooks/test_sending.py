"""An attempt reaches only allowed addresses, follows no redirect, and ends in bounded time."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_network
from ssl import CERT_REQUIRED
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest

from historyapp.core.errors import Invalid
from historyapp.services.webhooks import sending, targets
from historyapp.services.webhooks.sending import Attempt, send
from historyapp.services.webhooks.targets import TargetRefused, addresses_of, parse_target
from tests.services.webhooks.receiver import Receiver, Reply

HEADERS = {"webhook-id": "msg_1"}
Resolve = Callable[..., None]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Lets every name have some addresses."""

    def resolve(*addresses: str) -> None:
        def resolved_addresses(host: str, port: int, **_: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", resolved_addresses)

    return resolve


def post(receiver: Receiver) -> Attempt:
    return send(receiver.url, HEADERS, '{"type": "webhook.test", "data": {}}')


def test_the_beginning_of_a_response_is_stored(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(400, b"\xff" + b"no such hook " * 1000)
    attempt = post(receiver)
    assert (attempt.status, attempt.succeeded) == (400, False)
    assert attempt.answer.startswith("\ufffdno such hook")
    assert len(attempt.answer) == 1024


def test_the_trusted_certificates_are_loaded_once(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(receiver)
    monkeypatch.delattr("ssl.create_default_context")
    assert post(receiver).succeeded
    assert sending._certificates().verify_mode == CERT_REQUIRED
    assert sending._certificates().check_hostname


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(307, headers={"Location": receiver.url})
    attempt = post(receiver)
    assert attempt.error == "The target responded with a redirect (307). Set the webhook to the new URL."
    assert len(receiver.arrived) == 1


def test_a_response_of_gigabytes_is_not_read(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(200, endless=True)
    started = time.monotonic()
    assert post(receiver).succeeded
    assert time.monotonic() - started < 5
    time.sleep(0.1)
    assert receiver.sent < 50 << 20, "what fits into the buffers of the sockets"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 5000),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"a"),
    ],
    ids=["interim responses", "chunks", "byte by byte"],
)
def test_a_response_without_end_is_not_read_until_the_time_limit(first: bytes, then: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send_without_end() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(first)
                while True:
                    connection.sendall(then)
                    time.sleep(0.0005 if len(then) == 1 else 0)

        thread = Thread(target=send_without_end)
        thread.start()
        attempt = send(f"http://127.0.0.1:{server.getsockname()[1]}/", HEADERS, "{}")
        thread.join()
    assert attempt.error == "The request failed: ReadError the target sent more than 128 KB"


def test_a_target_that_sends_its_head_byte_by_byte_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TOTAL_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        started = time.monotonic()

        def trickle() -> None:
            connection, _ = server.accept()
            with connection:
                for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 50:
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return
                    time.sleep(0.1)

        thread = Thread(target=trickle)
        thread.start()
        attempt = send(f"http://127.0.0.1:{server.getsockname()[1]}/", HEADERS, "{}")
        assert time.monotonic() - started < 6  # all of it takes 7
        thread.join()
    assert attempt.status is None
    assert "did not respond within" in attempt.error


def test_an_unreachable_target_is_an_error() -> None:
    attempt = send("http://127.0.0.1:9/", HEADERS, "{}")
    assert attempt.status is None
    assert "request failed" in attempt.error


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1",
        "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "255.255.255.255", "127.0.0.2",
        "::127.0.0.2", "::ffff:0:127.0.0.2", "::10.0.0.1", "::ffff:0:10.0.0.1", "::",
        "192.88.99.1", "fec0::1", "5f00::1", "3fff::1",
    ],
)  # fmt: skip
def test_a_name_with_an_address_that_is_not_public_is_refused(resolve: Resolve, address: str) -> None:
    resolve("93.184.215.14", address)
    with pytest.raises(TargetRefused, match="not public"):
        addresses_of(parse_target("https://hooks.example.org/a"))
    attempt = send("https://hooks.example.org/a", HEADERS, "{}")
    assert (attempt.status, "not public" in attempt.error) == (None, True)


@pytest.mark.parametrize("host", ["93.184.215.14", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]"])
def test_an_address_is_not_looked_up(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.getaddrinfo")
    assert addresses_of(parse_target(f"https://{host}/a")) == [host.strip("[]")]


def test_a_public_address_needs_tls_even_if_private_ones_are_allowed(resolve: Resolve) -> None:
    resolve("93.184.215.14")
    assert addresses_of(parse_target("https://hooks.example.org/a")) == ["93.184.215.14"]
    with pytest.raises(TargetRefused, match="https"):
        addresses_of(parse_target("http://hooks.example.org/a"))


def test_the_connection_goes_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[str] = iter(["127.0.0.1", "10.0.0.1"])

    def resolved_addresses(host: str, port: int, **_: Any) -> list[Any]:
        address = host if host == "127.0.0.1" else next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved_addresses)
    url = f"http://rebound.example.org:{receiver.server_port}/hook?a=1"
    assert send(url, HEADERS, '{"type": "webhook.test", "data": {}}').succeeded
    assert receiver.arrived[0].headers["host"] == f"rebound.example.org:{receiver.server_port}"


def test_names_of_one_project_that_are_not_looked_up_do_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All look-ups shared eight threads, which twenty names without an answer kept for 20 s each."""
    started, released = list[str](), Event()

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        started.append(host)
        if host.startswith("silent"):
            assert released.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(targets, "RESOLVE_SECONDS", 0.01)
    try:
        for number in range(20):
            with pytest.raises(TargetRefused, match="could not be looked up in time"):
                addresses_of(parse_target(f"https://silent{number}.example.org/"), UUID(int=1))
        monkeypatch.setattr(targets, "RESOLVE_SECONDS", 60)
        assert addresses_of(parse_target("https://hooks.example.org/"), UUID(int=2)) == ["93.184.215.14"]
        assert len(started) == targets._OF_PROJECT + 1
    finally:
        released.set()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/", "https://"),
        ("https://", "https://"),
        ("https://example.org:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://me:secret@example.org/", "password"),
        ("https://example.org/#part", "after #"),
        ("https://example.org/a b", "percent-encoded"),
        ("https://evil.example\\@good.example/", "percent-encoded"),
        ("hooks", "https://"),
    ],
)
def test_a_url_that_cannot_be_a_target_is_refused(url: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        parse_target(url)


def test_http_needs_allowed_private_addresses(settings: Any) -> None:
    assert parse_target("http://127.0.0.1/").port == 80
    settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = []
    with pytest.raises(Invalid, match="https"):
        parse_target("http://127.0.0.1/")
    settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = [ip_network("10.0.0.0/8")]
    with pytest.raises(TargetRefused):
        addresses_of(parse_target("http://127.0.0.1/"))
