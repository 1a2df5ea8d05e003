"""Each request has an id. When requests are logged, nothing that can hold a secret is."""

import json
import logging
import runpy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from historyapp import settings as loaded
from historyapp.log import JsonLine
from historyapp.middleware import log
from historyapp.models import Project
from historyapp.services.keys import create_key, create_sign_in_link
from historyapp.services.sessions import create_session
from historyapp.services.shares import ShareOptions, create_share, share_path
from tests.busy import busy_error

pytestmark = pytest.mark.django_db
SECRET = "a-secret-of-somebody"


class Lines(logging.Handler):
    """Keeps what would be logged."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLine())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The lines of the log, with requests."""
    handler, root, level = Lines(), logging.getLogger(), log.level
    root.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler.lines
    root.removeHandler(handler)
    log.setLevel(level)


def test_every_response_has_an_id_of_its_own(client: Client) -> None:
    paths = ("/healthz", "/api/v1/sessions", "/nothing", "/static/nothing.css", "/sign-in")
    ids = [client.get(path)["X-Request-ID"] for path in paths]
    assert len(set(ids)) == len(paths)


def test_the_clients_id_is_repeated_and_a_malformed_one_is_not(client: Client) -> None:
    def id_for(given: str) -> str:
        return client.get("/healthz", headers={"X-Request-ID": given})["X-Request-ID"]

    assert id_for("trace-0123456789") == "trace-0123456789"
    assert "ph_" not in id_for("ph_0123456789abcdef")


def test_a_request_is_one_line_with_its_route_key_and_session(client: Client, lines: list[str]) -> None:
    project = Project.objects.create(name="Alice's")
    key, text = create_key(project, "alice")
    session = create_session(project)
    response = client.get(f"/api/v1/sessions/{session.pk}", headers={"Authorization": f"Bearer {text}"})
    (line,) = map(json.loads, lines)
    assert line["request_id"] == response["X-Request-ID"]
    assert (line["method"], line["status"], line["key"]) == ("GET", 200, key.prefix)
    assert line["route"] == "/api/v1/sessions/<session_id>"
    assert line["session_id"] == str(session.pk)
    assert line["ms"] > 0
    assert text not in lines[0]


@pytest.mark.parametrize("path", [f"/sign-in/{SECRET}", f"/sign-in?next={SECRET}", f"/{SECRET}"])
def test_neither_address_nor_query_nor_headers_nor_body_are_logged(
    client: Client, lines: list[str], path: str
) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "Cookie": SECRET, "User-Agent": SECRET, "Referer": SECRET}
    client.get(path, headers=headers)
    client.post(path, {"password": SECRET}, headers=headers)
    client.generic(SECRET.upper(), path)
    client.post(f"/api/v1/sessions?token={SECRET}", {"title": SECRET}, "application/json", headers=headers)
    assert len([line for line in lines if "historyapp.requests" in line]) == 4
    assert SECRET.lower() not in "".join(lines).lower()


def share_of_session() -> str:
    session = create_session(Project.objects.create(name="Alice's"))
    return share_path(create_share(session.project, session.pk, ShareOptions()).pk)


def link_to_sign_in() -> str:
    return f"/sign-in/{create_sign_in_link(User.objects.create_user('alice'))}"


@pytest.fixture
def every_level() -> Iterator[None]:
    """Lets Django log each response that is an error, as it does for a logger without a level."""
    logger = logging.getLogger("django.request")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(level)


@pytest.mark.usefixtures("every_level")
@pytest.mark.parametrize("cookie", ["", f"playhead_csrf={'x' * 32}"])
@pytest.mark.parametrize("fault", ["", "busy", "broken"])
@pytest.mark.parametrize("link", [share_of_session, link_to_sign_in])
def test_no_line_contains_the_token_of_a_link(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, link: Callable[[], str], fault: str, cookie: str
) -> None:
    path = link()
    token = path.strip("/").rpartition("/")[2]

    def fail(*_: Any, **__: Any) -> None:
        raise busy_error() if fault == "busy" else RuntimeError(token)

    for place in ("shared.find_share", "sign_in.use_sign_in_link", "sign_in.render") if fault else ():
        monkeypatch.setattr(f"dashboard.views.{place}", fail)
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "POST"):
        for rest in ("", "/nothing", f"/sessions/a b/{token}"):
            client.generic(method, f"{path}{rest}", headers={"Cookie": cookie, "Referer": path})
    assert any("django.request" in line for line in lines)
    assert any("django.security.csrf" in line for line in lines) == (link is link_to_sign_in)
    assert token not in "".join(lines)


def test_requests_are_not_logged_by_default(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.get("/healthz")
    assert caplog.text == ""


def test_a_fault_of_the_server_names_the_request_in_answer_and_log(
    client: Client, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> None:
        raise busy_error()

    monkeypatch.setattr("historyapp.api.auth.find_key", fail)
    response = client.get("/api/v1/sessions", headers={"Authorization": "Bearer ph_x"})
    assert response.status_code == 503
    id = response["X-Request-ID"]
    assert response.json()["request_id"] == id
    cause = next(json.loads(line) for line in lines if "historyapp.api.problems" in line)
    assert (cause["request_id"], cause["exception"]) == (id, "OperationalError")


def test_a_clients_error_has_no_id_in_its_document(client: Client) -> None:
    assert "request_id" not in client.get("/api/v1/sessions").json()


@pytest.mark.parametrize(
    ("format", "formatter"), [("", "OneLine"), ("text", "OneLine"), ("json", "JsonLine")]
)
def test_the_settings_choose_the_format_and_whether_requests_are_logged(
    monkeypatch: pytest.MonkeyPatch, format: str, formatter: str
) -> None:
    monkeypatch.setenv("PLAYHEAD_LOG_FORMAT", format)
    monkeypatch.setenv("PLAYHEAD_LOG_REQUESTS", "yes" if format else "")
    logging = runpy.run_path(loaded.__file__)["LOGGING"]
    assert logging["formatters"]["line"]["()"] == f"historyapp.log.{formatter}"
    assert logging["loggers"]["historyapp.requests"]["level"] == ("INFO" if format else "WARNING")
