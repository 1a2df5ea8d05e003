"""API requests pass less middleware than pages, but all middleware that protects them."""

import json
import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from historyapp.api.auth import LOCAL_KEY
from historyapp.models import ApiKey, Project
from historyapp.wsgi import MAX_PATH, application
from tests.installation import ROOT

pytestmark = pytest.mark.django_db


HEADERS = (
    *("Content-Type", "Content-Length", "Allow", "X-Content-Type-Options", "Referrer-Policy"),
    *("X-Frame-Options", "Cross-Origin-Opener-Policy"),
)


def ask(
    path: str, method: str = "GET", host: str = "localhost", more: dict[str, Any] | None = None
) -> tuple[str, dict[str, str], bytes]:
    """Status, headers and body, as a WSGI server would get them."""
    answered: list[Any] = []
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "HTTP_HOST": host, "wsgi.input": BytesIO(),
        "wsgi.url_scheme": "http", "HTTP_COOKIE": "playhead_session=x", **(more or {}),
    }  # fmt: skip
    body = application(environ, lambda status, headers: answered.append((status, dict(headers))))
    content = b"".join(body)
    body.close()  # type: ignore[attr-defined]  # Django's responses have it
    return answered[0][0], answered[0][1], content


@pytest.mark.parametrize("path", ["/api/v1/sessions", "/api/v1/nothing", "/api/v1/openapi.json"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_the_api_gives_the_same_response_with_both_middleware_lists(path: str, method: str) -> None:
    status, headers, content = ask(path, method)
    full = Client().generic(method, path)
    assert status.startswith(str(full.status_code))
    assert content == full.content
    for header in HEADERS:
        assert headers.get(header) == full.headers.get(header), header


def test_a_repeated_request_gets_the_same_response_for_any_length_of_address() -> None:
    for path in ("/api/v1/sessions", "/api/v1/sessions/" + "x" * 2 * MAX_PATH):
        assert len({(status, content) for status, _, content in (ask(path), ask(path))}) == 1


def test_another_host_is_refused() -> None:
    status, headers, content = ask("/api/v1/sessions", host="elsewhere.example")
    assert (status, headers["X-Frame-Options"]) == ("400 Bad Request", "DENY")
    assert json.loads(content)["status"] == 400


def test_an_error_of_the_api_is_a_problem_document() -> None:
    status, headers, content = ask("/api/v1/sessions")
    assert (status, headers["Content-Type"]) == ("401 Unauthorized", "application/problem+json")
    assert json.loads(content)["status"] == 401


def test_the_api_sets_no_cookie() -> None:
    assert "Set-Cookie" not in ask("/api/v1/sessions")[1]


@pytest.mark.parametrize("path", ["/", "/sign-in", "/api/v1/docs", "/docs/errors"])
def test_pages_have_their_policy(path: str) -> None:
    assert "script-src" in ask(path)[1]["Content-Security-Policy"]


@pytest.mark.parametrize(("method", "status"), [("GET", "200 OK"), ("POST", "403 Forbidden")])
def test_a_command_on_this_machine_needs_no_host_header(
    method: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "close", lambda: None)  # it would end the test's transaction
    key = ApiKey(project=Project.objects.create(name="Alice's"), name="command line", scopes=["read"])
    assert ask("/api/v1/sessions", method, more={LOCAL_KEY: key})[0] == status


@pytest.mark.parametrize("name", [LOCAL_KEY, f"HTTP_{LOCAL_KEY}", "HTTP_PLAYHEAD_LOCAL_KEY"])
def test_no_header_can_imitate_the_key_of_a_local_command(name: str) -> None:
    assert ask("/api/v1/sessions", more={name: "command line"})[0] == "401 Unauthorized"


def test_the_server_loads_only_what_it_needs() -> None:
    """Ninja imports Django's tools for tests. They and Celery would take 10 MB of an idle server's memory."""
    code = (
        "import sys; from historyapp.asgi import make_front; make_front(1)\n"
        "from historyapp.tracing import tracer; assert tracer() is None\n"
        "from historyapp import enqueue; enqueue.put = lambda queue, message: None; enqueue.wake('run')\n"
        "print(*sys.modules)\n"
        "from django.test import Client; from django.test.signals import setting_changed"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    packages = {name.partition(".")[0] for name in modules}
    assert "ninja" in packages
    assert modules & {"django.test", "unittest"} == set()
    assert packages & {"celery", "kombu", "jinja2", "opentelemetry"} == set()
    assert packages & {"spacy", "numpy", "openai", "anthropic"} == set()
