"""Browsers get pages compressed; agents get answers as they are."""

import gzip

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory

from historyapp.middleware import CompressionMiddleware

TEXT = b"history repeats itself. " * 100


def answer(path: str, response: HttpResponseBase) -> HttpResponseBase:
    request = RequestFactory(headers={"Accept-Encoding": "gzip"}).get(path)
    return CompressionMiddleware(lambda _: response)(request)  # type: ignore[return-value]


def test_a_page_is_compressed() -> None:
    response = answer("/sessions", HttpResponse(TEXT))
    assert response["Content-Encoding"] == "gzip"
    assert isinstance(response, HttpResponse)
    assert gzip.decompress(response.content) == TEXT


@pytest.mark.parametrize(
    ("path", "response"),
    [
        ("/api/v1/sessions", HttpResponse(TEXT, content_type="application/json")),
        ("/stream", StreamingHttpResponse([TEXT], content_type="text/event-stream")),
        ("/static/logo.png", HttpResponse(TEXT, content_type="image/png")),
        ("/static/app.css", HttpResponse(TEXT, content_type="text/css", status=206)),
        ("/static/app.css", StreamingHttpResponse([], content_type="text/css", status=304)),
    ],
    ids=["an API answer", "a stream", "a picture", "a part", "not modified"],
)
def test_what_must_stay_as_it_is_stays(path: str, response: HttpResponseBase) -> None:
    assert "Content-Encoding" not in answer(path, response).headers
