"""Long paths, queries and headers are refused before anything in the event loop reads them."""

import asyncio
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.core import signing
from django.http.cookie import parse_cookie

from historyapp.core.json import parse_strict
from historyapp.front import environ
from historyapp.front.application import Front
from historyapp.front.environ import MAX_ADDRESSES, MAX_HEAD, MAX_PATH
from historyapp.front.pool_names import pool_name
from historyapp.services.devices import COOKIE, cookie_value
from tests.front.limits import small_limits
from tests.front.one_request import scope_of
from tests.front.virtual_time import run_in_virtual_time


async def _ask(front: Front, headers: list[tuple[bytes, bytes]], **changes: Any) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await front(scope_of("POST", "/api/v1/docs", *headers) | changes, receive, send)
    return sent[0]["status"], sent[1]["body"]


def _application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b""]


def test_a_method_in_lower_case_is_served_as_in_upper_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django reads it so. Otherwise threads for short requests would carry out model calls."""
    methods: list[str] = []

    def pool_of(method: str, *_: object) -> str:
        methods.append(method)
        return pool_name(method, "/api/v1/docs")

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        methods.append(environ["REQUEST_METHOD"])
        return _application(environ, start_response)

    monkeypatch.setattr("historyapp.front.application.pool_name", pool_of)
    assert asyncio.run(_ask(Front(application, small_limits(), 1), [], method="post"))[0] == 200
    assert methods == ["POST", "POST"]


ROOM = MAX_HEAD - len(b"cookie")


@pytest.mark.parametrize(
    ("changes", "cookie", "status"),
    [
        ({"raw_path": b"/" + b"%41" * (MAX_PATH // 3)}, b"", 200),
        ({"raw_path": b"/" + b"%41" * MAX_PATH}, b"", 431),
        ({"raw_path": b"/?" + b"a" * 2 * MAX_PATH, "query_string": b"a" * 2 * MAX_PATH}, b"", 200),
        ({}, b";" * ROOM, 200),
        ({}, b";" * (ROOM + 1), 431),
        ({"query_string": b"a"}, b";" * ROOM, 431),
    ],
)
def test_a_long_head_is_refused_unread_and_after_a_second(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], cookie: bytes, status: int
) -> None:
    """Otherwise hundreds of connections could repeat such requests as fast as the event loop refuses them."""
    front = Front(_application, small_limits(), 1)
    if status == 431:  # nothing may read it
        monkeypatch.setattr("historyapp.front.application.headers_of", lambda scope: dict(scope["headers"]))
        for name in ("length_of", "pool_name", "client_of", "credential_of", "environ_of"):
            monkeypatch.setattr(f"historyapp.front.application.{name}", pytest.fail)
        monkeypatch.setattr(environ, "unquote_to_bytes", pytest.fail)

    async def ask() -> tuple[int, bytes, float]:
        started = asyncio.get_running_loop().time()
        answer = await _ask(front, [(b"cookie", cookie)], **changes)
        return *answer, asyncio.get_running_loop().time() - started

    if status == 200:
        assert asyncio.run(_ask(front, [(b"cookie", cookie)], **changes))[0] == 200
        return
    found, body, seconds = run_in_virtual_time(ask())
    assert found == status
    assert "at most" in parse_strict(body.decode())["detail"]
    assert seconds == pytest.approx(1)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
def test_a_long_media_type_is_refused_unread(monkeypatch: pytest.MonkeyPatch, more: int, status: int) -> None:
    """Django parses it for strangers, too: 16 KB of semicolons took 0.14 s."""
    front = Front(_application, small_limits(), 1)
    monkeypatch.setattr("historyapp.front.application.REFUSED_SECONDS", 0)
    header = (b"content-type", b";" * (environ.MAX_MEDIA_TYPE + more))
    assert asyncio.run(_ask(front, [header]))[0] == status


@pytest.mark.parametrize(("repeated", "status"), [(MAX_HEAD - 1000, 200), (MAX_ADDRESSES // 2 + 1, 431)])
def test_a_page_whose_query_is_accepted_can_be_updated(
    monkeypatch: pytest.MonkeyPatch, repeated: int, status: int
) -> None:
    """Browsers send its address again in two headers."""
    monkeypatch.setattr("historyapp.front.application.REFUSED_SECONDS", 0)
    front = Front(_application, small_limits(), 1)
    address = b"a" * repeated
    headers = [(b"referer", address), (b"hx-current-url", address)]
    query = b"a" * (MAX_HEAD - 1000)
    assert asyncio.run(_ask(front, headers, query_string=query))[0] == status


@pytest.mark.parametrize(
    "cookies",
    [
        "sessionid=abc", "a=1;sessionid=abc;b=2", " sessionid = abc ; ", "sessionid=old; sessionid=abc",
        'sessionid="abc"', "xsessionid=1; sessionidx=2", "sessionid", "sessionid=", "=sessionid",
        "a=sessionid=1", "a=b=sessionid; sessionid=a=b", "", ";;;", "sessionid=a; ;sessionid",
    ],
)  # fmt: skip
def test_a_cookie_has_the_value_that_django_finds(cookies: str) -> None:
    assert cookie_value(cookies.encode(), "sessionid") == parse_cookie(cookies).get("sessionid", "")


def test_a_signed_cookie_is_sent_without_quotes() -> None:
    """So its value needs no unescaping."""
    jar = SimpleCookie()
    jar[COOKIE] = value = signing.dumps(["0123456789abcdef", "f" * 64], salt="x")
    assert jar[COOKIE].coded_value == value
