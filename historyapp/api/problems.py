"""Maps every error to a problem document (RFC 9457). No other module does."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation, TooManyFilesSent
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja.errors import HttpError

from historyapp.api.auth import bearer_token
from historyapp.core.errors import Conflict, NotFound, PlayheadError
from historyapp.core.json import dump_json
from historyapp.llm.errors import ModelCallError
from historyapp.log import request_id
from historyapp.models import Session
from historyapp.models.projects import PURGED
from historyapp.services.faults import find_damage, unavailable
from historyapp.wire.problems import (
    MEDIA_TYPE,
    Malformed,
    ServerFailed,
    ServerUnavailable,
    StorageFailed,
    TooLarge,
    TransactionTooLong,
    Unauthenticated,
    problem_type,
)

View = TypeVar("View", bound=Callable[..., Any])
log = logging.getLogger(__name__)

DECLARED: dict[Callable[..., Any], tuple[type[PlayheadError], ...]] = {}
"""The errors that each view declares with :func:`raises`."""
_MAX_DETAIL = 1000
_MAX_TEXT = 200
_MAX_LIST = 20
_DJANGO_ERRORS: dict[type[Exception], tuple[type[PlayheadError], str]] = {
    Http404: (NotFound, "There is nothing at this address. The API calls are listed at /api/v1/docs."),
    RequestDataTooBig: (TooLarge, "The body is too large. Send less in one request."),
    TooManyFilesSent: (Malformed, "The request has too many files. Send fewer in one request."),
    MultiPartParserError: (Malformed, "The body is not valid multipart/form-data."),
    DisallowedHost: (
        Malformed,
        "The Host header names a host that this server does not accept. The operator can add it to "
        "ALLOWED_HOSTS.",
    ),
    SuspiciousOperation: (Malformed, "The request has too many parameters, or a suspicious parameter."),
    UnreadablePostError: (Malformed, "The body ended early. Send it again."),
}
"""Django's exceptions, and the problems that they become. A subclass must come before its base class."""


def raises(*errors: type[PlayheadError]) -> Callable[[View], View]:
    """Declares which errors a route can return, in addition to those of all routes (``api.openapi``)."""

    def declare(view: View) -> View:
        DECLARED[view] = errors
        return view

    return declare


def problem_response(request: HttpRequest, error: BaseException) -> HttpResponse:
    """The response to a request that ended in an error."""
    expected = _expected(error) or _deletion(request)
    if expected is None:
        # Log neither the error's text nor the body: both can contain an agent's data. See historyapp.log.
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        expected = find_damage() or ServerFailed(
            "The server failed to carry out the request. The reason is in the server's log."
        )
    headers = {}
    if isinstance(expected, ServerUnavailable):
        headers = {"Retry-After": str(expected.retry_after or 1)}
        is_logged = expected is error or isinstance(expected, (StorageFailed, TransactionTooLong))
        if not is_logged:
            log.warning("%s %s: the database is not available", request.method, request.path, exc_info=error)
    elif isinstance(expected, Conflict) and "retry_after" in expected.fields:
        headers = {"Retry-After": str(expected.fields["retry_after"])}
    elif isinstance(expected, ModelCallError):
        log.warning("%s %s: %s", request.method, request.path, expected.detail)
    elif isinstance(expected, Unauthenticated):
        headers = {"WWW-Authenticate": challenge(bearer_token(request))}
    document, status = problem(expected), problem_type(expected).status
    if status >= 500 and request_id.get():
        document["request_id"] = request_id.get()
    return HttpResponse(dump_json(document), status=status, content_type=MEDIA_TYPE, headers=headers)


def challenge(key: str) -> str:
    """The header ``WWW-Authenticate`` for a request with this API key, which may be empty."""
    return 'Bearer realm="playhead"' + (', error="invalid_token"' if key else "")


def problem(error: PlayheadError) -> dict[str, Any]:
    """The problem document of an error, with long texts and lists shortened."""
    type = problem_type(error)
    fields = {name: _clipped(value) for name, value in error.fields.items()}
    detail = _shortened(error.detail, _MAX_DETAIL)
    return {**fields, "type": type.uri, "title": type.title, "status": type.status, "detail": detail}


def _expected(error: BaseException) -> PlayheadError | None:
    """The error of this project that an exception stands for, or None if the exception is unexpected."""
    if isinstance(error, HttpError) and isinstance(error.__cause__, PlayheadError):
        return error.__cause__  # ninja wraps whatever its parser raises
    if isinstance(error, PlayheadError):
        return error
    if fault := unavailable(error):
        return fault
    problems = (
        problem_class(detail)
        for exception_class, (problem_class, detail) in _DJANGO_ERRORS.items()
        if isinstance(error, exception_class)
    )
    return next(problems, None)


def _deletion(request: HttpRequest) -> NotFound | None:
    """The error if the session in the path was deleted while the request was carried out."""
    session = request.resolver_match.kwargs.get("session_id") if request.resolver_match else None
    with suppress(DatabaseError, ValueError):
        sessions = Session.objects.exclude(project=PURGED)
        if session and not sessions.filter(pk=UUID(str(session))).exists():
            return NotFound(f"There is no session {session}.")
    return None


def _clipped(value: Any) -> Any:
    if isinstance(value, str):
        return _shortened(value, _MAX_TEXT)
    if isinstance(value, (list, tuple)):
        return [_clipped(item) for item in value[:_MAX_LIST]]
    if isinstance(value, dict):
        return {name: _clipped(item) for name, item in value.items()}
    return value


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
