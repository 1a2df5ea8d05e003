"""Answers: JSON that keeps any text, and 304 where the reader has it already."""

import hashlib
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags

from historyapp.core.json import dump_json
from historyapp.models import Session

REPLAYED = {"Idempotency-Replayed": "true"}
"""Headers of an answer to a request that had been answered before."""


def reply(data: Any, status: int = 200) -> HttpResponse:
    """JSON of plain values. Nothing is validated again: the tests hold answers to their schemas."""
    return HttpResponse(dump_json(data), status=status, content_type="application/json")


def reply_unless_known(
    request: HttpRequest, session: Session, make: Callable[[], Any], *, besides: str = ""
) -> HttpResponse:
    """What ``make`` gives; 304 without calling it while the session is as ``If-None-Match`` has it.

    ``besides``: what the answer depends on beside the session and the query.
    """
    tag = etag(request, session, besides)
    known = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    response = HttpResponseNotModified() if tag in known or known == ["*"] else reply(make())
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response


def etag(request: HttpRequest, session: Session, besides: str = "") -> str:
    """Weak: it names the state that an answer was made from, not the answer's bytes."""
    query = hashlib.sha256(f"{request.META.get('QUERY_STRING', '')}{besides}".encode()).hexdigest()[:8]
    return f'W/"{session.shared_revision}-{query}"'
