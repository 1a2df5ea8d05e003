"""Compression of what browsers load."""

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_COMPRESSIBLE = re.compile(r"text/(?!event-stream)|application/json|image/svg")


class CompressionMiddleware(GZipMiddleware):
    """gzip for pages, fragments and static files.

    The API's answers stay as they are: agents are usually near, and compressing a long history costs more
    than it saves. Partial and "not modified" answers have no whole body to compress.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        skip = request.path_info.startswith("/api/") or response.status_code != 200
        if skip or not _COMPRESSIBLE.match(response.get("Content-Type", "")):
            return response
        return super().process_response(request, response)
