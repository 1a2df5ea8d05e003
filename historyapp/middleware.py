"""Middleware for all addresses: the log of requests, HEAD requests, and compression for browsers."""

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.middleware.gzip import GZipMiddleware

from historyapp import meters
from historyapp.log import new_request_id, request_id
from historyapp.tracing import end_request, request_span

log = logging.getLogger("historyapp.requests")

_COMPRESSIBLE = re.compile(r"text/(?!event-stream)|application/json|image/svg")


class RequestMiddleware:
    """Gives each request an id, counts it for ``/metrics``, and logs it with ``PLAYHEAD_LOG_REQUESTS``.

    It comes first, so that every response is counted.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        # The id stays set after this call, because a stream's errors are logged later in the same thread.
        id = new_request_id(request.META.get("HTTP_X_REQUEST_ID", ""))
        request_id.set(id)
        method = meters.known_method(request.method)
        with request_span(method, request.META) as span:
            response = self.get_response(request)
            route = meters.route_of(request)
            if span:
                end_request(span, method, route, response.status_code, id)
        response["X-Request-ID"] = id
        seconds = time.perf_counter() - started
        meters.count_request(method, route, response.status_code, seconds)
        if log.isEnabledFor(logging.INFO):
            log_request(request, response, seconds)
        return response


def log_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    """Logs a request by its route and ids, not by its address, because addresses can contain tokens."""
    match, key = request.resolver_match, getattr(request, "auth", None)
    method, route = meters.known_method(request.method), meters.route_of(request)
    milliseconds = round(seconds * 1000, 1)
    fields: dict[str, object] = {
        "method": method,
        "route": route,
        "status": response.status_code,
        "ms": milliseconds,
        "address": request.META.get("REMOTE_ADDR", ""),
    }
    if key is not None:
        fields["key"] = key.prefix
    for name, value in (match.kwargs if match else {}).items():
        if isinstance(value, int):
            fields[name] = value
        with suppress(ValueError):  # any other text in an address can be a token
            fields[name] = str(UUID(str(value)))
    message = "%s %s: %s in %s ms, request %s"
    log.info(
        message, method, route, response.status_code, milliseconds, request_id.get(), extra={"fields": fields}
    )


class ApiMiddleware:
    """For agents' requests: checks ``Host``, and adds ``Content-Length``.

    It and :class:`historyapp.wsgi.ApiHandler` replace ``SecurityMiddleware``, ``CommonMiddleware`` and
    ``XFrameOptionsMiddleware``, because every append passes through it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        def check_host(request: HttpRequest) -> HttpResponseBase:
            request.get_host()  # raises DisallowedHost
            return get_response(request)

        self.get_response: Callable[..., HttpResponseBase] = convert_exception_to_response(check_host)  # type: ignore[assignment]

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, HttpResponse) and "Content-Length" not in response:
            response["Content-Length"] = str(len(response.content))
        return response


class HeadMiddleware:
    """Handles HEAD like GET, without the body. ``Content-Length`` is that of GET, if known."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method != "HEAD":
            return self.get_response(request)
        request.method = "GET"
        response = self.get_response(request)
        request.method = "HEAD"
        if isinstance(response, StreamingHttpResponse):
            response.streaming_content = ()  # the stream itself is closed with the response
        elif isinstance(response, HttpResponse):
            response.content = b""
        return response


class CompressionMiddleware(GZipMiddleware):
    """gzip for pages, fragments and static files.

    Responses of the API are not compressed: agents are usually on the same network, and compressing a long
    history costs more time than it saves. Partial and "not modified" responses have no complete body to
    compress.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        skip = request.path_info.startswith("/api/") or response.status_code != 200
        if skip or not _COMPRESSIBLE.match(response.get("Content-Type", "")):
            return response
        return super().process_response(request, response)
