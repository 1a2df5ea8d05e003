"""Errors are pages in our style. A request for a fragment gets one sentence."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.templatetags.static import static
from django.test import Client, RequestFactory
from django.urls import get_resolver

from dashboard.errors import ErrorPages
from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError, UnreadableTranscript
from historyapp.models import Session
from historyapp.wire.problems import problem_type
from tests.dashboard.pages import html, text


@pytest.mark.parametrize(
    "path", ["/nothing", "/sessions", "/sessions/1", "/sessions/%00", "/sessions/" + "a" * 5000]
)
def test_an_unknown_address_gets_an_error_page(alice: Client, path: str) -> None:
    response = alice.get(path)
    assert response.status_code == 404
    assert "Page not found" in text(response)
    assert 'href="/"' in html(response)


def test_an_error_within_a_session_leads_back_to_it(alice: Client, charlie: Client, session: Session) -> None:
    path = f"/sessions/{session.pk}"
    assert f'href="{path}">Back to the session' in html(alice.get(path, {"step": 99}))
    assert "Back to the session" not in html(charlie.get(path, {"step": 99}))


def test_the_text_of_an_error_is_escaped(alice: Client, session: Session) -> None:
    response = alice.get(f"/sessions/{session.pk}/exports/markdown", {"as_of": "<script>alert(1)</script>"})
    assert response.status_code == 422
    assert "<script>alert" not in html(response)


@pytest.mark.parametrize("kind", [NotFound, Conflict, Invalid, UnreadableTranscript, PlayheadError])
def test_every_expected_error_is_a_page(kind: type[PlayheadError], db: None) -> None:
    request = RequestFactory().get("/")
    middleware = ErrorPages(lambda _: HttpResponse())
    response = middleware.process_exception(request, kind("It is <b>so</b>."))
    assert response is not None
    assert response.status_code == problem_type(kind).status
    assert "It is &lt;b&gt;so&lt;/b&gt;." in html(response)


def test_an_unexpected_error_is_left_to_the_server() -> None:
    middleware = ErrorPages(lambda _: HttpResponse())
    assert middleware.process_exception(RequestFactory().get("/"), KeyError("x")) is None


@pytest.mark.parametrize("code", [400, 403, 500])
def test_pages_of_the_server_itself_need_no_database(code: int) -> None:
    request = RequestFactory().get("/")
    handler: Any = get_resolver().resolve_error_handler(code)
    response = handler(request) if code == 500 else handler(request, exception=PermissionError("secret"))
    assert response.status_code == code
    assert static("joined/styles.css") in html(response)
    assert "secret" not in html(response)
