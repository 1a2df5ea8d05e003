"""HEAD is GET without a body; pages are compressed, API responses are not."""

import gzip
from pathlib import Path

import pytest
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory

from historyapp.middleware import CompressionMiddleware, HeadMiddleware

TEXT = b"history repeats itself. " * 100


def compressed(path: str, response: HttpResponseBase) -> HttpResponseBase:
    request = RequestFactory(headers={"Accept-Encoding": "gzip"}).get(path)
    return CompressionMiddleware(lambda _: response)(request)  # type: ignore[return-value]


def test_a_page_is_compressed() -> None:
    response = compressed("/sessions", HttpResponse(TEXT))
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
def test_responses_that_must_not_be_compressed_are_unchanged(path: str, response: HttpResponseBase) -> None:
    assert "Content-Encoding" not in compressed(path, response).headers


def head_response(response: HttpResponseBase) -> HttpResponseBase:
    """The response to HEAD if ``response`` is the response to GET."""

    def get(request: HttpRequest) -> HttpResponseBase:
        assert request.method == "GET"
        return response

    request = RequestFactory().head("/")
    head = HeadMiddleware(get)(request)
    assert request.method == "HEAD"
    return head


def test_head_has_the_headers_of_get_and_no_body() -> None:
    response = head_response(
        HttpResponse(TEXT, status=201, headers={"Content-Length": "2400", "ETag": '"1"'})
    )
    assert isinstance(response, HttpResponse)
    assert (response.status_code, response["Content-Length"], response["ETag"]) == (201, "2400", '"1"')
    assert response.content == b""


@pytest.mark.django_db
def test_a_stream_is_not_started_for_head(tmp_path: Path) -> None:
    lines = iter([b"never read"])
    response = head_response(StreamingHttpResponse(lines))
    assert isinstance(response, StreamingHttpResponse)
    assert list(response) == []
    assert next(lines) == b"never read"
    (tmp_path / "file").write_bytes(TEXT)
    file = (tmp_path / "file").open("rb")
    response = head_response(FileResponse(file))
    assert isinstance(response, FileResponse)
    assert response.file_to_stream is None
    response.close()
    assert file.closed


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/", "/sign-in", "/api/v1/docs", "/api/v1/openapi.json", "/api/v1/sessions"],
)
def test_every_address_treats_head_as_get(client: Client, path: str) -> None:
    get, head = client.get(path), client.head(path)
    assert head.status_code == get.status_code != 405
    assert head.headers.keys() == get.headers.keys()
    assert head.content == b""
