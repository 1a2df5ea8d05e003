"""Middleware for all addresses: counting, HEAD requests, and compression for browsers."""

import re
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.middleware.gzip import GZipMiddleware

from historyapp import meters

_COMPRESSIBLE = re.compile(r"text/(?!event-stream)|application/json|image/svg")


class RequestMiddleware:
    """Counts requests for ``/metrics``. It comes first, so that nothing that answers is left out."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        begun = time.perf_counter()
        response = self.get_response(request)
        seconds = time.perf_counter() - begun
        meters.count_request(request.method, meters.route_of(request), response.status_code, seconds)
        return response


class HeadMiddleware:
    """Responds to HEAD as to GET, without the body; ``Content-Length`` is that of GET if known."""

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

    Responses of the API are not compressed: agents are usually near, and compressing a long history costs
    more than it saves. Partial and "not modified" responses have no complete body to compress.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        skip = request.path_info.startswith("/api/") or response.status_code != 200
        if skip or not _COMPRESSIBLE.match(response.get("Content-Type", "")):
            return response
        return super().process_response(request, response)
