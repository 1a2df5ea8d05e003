"""A request whose Host header does not name this server is refused. No client header gets into a page."""

import pytest
from django.test import Client
from pytest_django import Settings

HOSTS = [
    "elsewhere.example",
    "localhost.elsewhere.example",
    "127.0.0.1.elsewhere.example",
    "localhost@elsewhere.example",
    "localhost:80@elsewhere.example",
    "elsewhere.example#localhost",
    "localhost/elsewhere",
    "localhost, elsewhere.example",
    "localhost:port",
    "[::1",
    "0.0.0.0",
    "169.254.169.254",
    "<script>alert(1)</script>",
]


@pytest.fixture(autouse=True)
def as_installed(settings: Settings) -> None:
    """pytest adds a host of its own."""
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/", "/sign-in", "/api/v1/sessions", "/api/v1/openapi.json"])
def test_another_host_is_refused_and_not_repeated(db: None, path: str, host: str) -> None:
    response = Client(raise_request_exception=False).get(path, headers={"Host": host})
    assert response.status_code == 400
    assert host not in response.content.decode()
    assert "Location" not in response.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1:8000", "[::1]:9000"])
def test_this_server_is_reached_by_its_names(db: None, host: str) -> None:
    assert Client().get("/sign-in", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-URL", "Referer"])
def test_other_headers_do_not_set_the_host(db: None, header: str) -> None:
    client = Client(headers={"Host": "localhost", header: "http://elsewhere.example/x"})
    assert "elsewhere" not in client.get("/sign-in").content.decode()
    assert client.get("/").headers["Location"] == "/sign-in?next=/"
