"""Every error as a problem document (RFC 9457), mapped here and nowhere else."""

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation, TooManyFilesSent
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja.errors import HttpError

from historyapp.core.errors import NotFound, PlayheadError
from historyapp.core.json import dump_json
from historyapp.llm.errors import ModelCallError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
ERRORS = "/docs/errors"
"""Address of the page that explains every kind; see :mod:`historyapp.api.catalogue`."""
_LONGEST_DETAIL = 1000
_LONGEST_TEXT = 200
_LONGEST_LIST = 20


class Refused(PlayheadError):
    """A request that never reaches a service."""

    headers: Mapping[str, str] = {}


class Malformed(Refused):
    slug, title, http_status = "malformed", "Malformed request", 400


class Unauthenticated(Refused):
    slug, title, http_status = "unauthenticated", "Not authenticated", 401

    def __init__(self, detail: str, *, token_given: bool) -> None:
        super().__init__(detail)
        error = ', error="invalid_token"' if token_given else ""
        self.headers = {"WWW-Authenticate": f'Bearer realm="playhead"{error}'}


class Forbidden(Refused):
    slug, title, http_status = "forbidden", "Not allowed with this key", 403


class MethodNotAllowed(Refused):
    slug, title, http_status = "method-not-allowed", "Method not allowed", 405

    def __init__(self, method: str, allow: str) -> None:
        super().__init__(f"{method} is not possible here. Use {allow}.")
        self.headers = {"Allow": allow}


class LengthRequired(Refused):
    slug, title, http_status = "length-required", "Length required", 411


class TooLarge(Refused):
    slug, title, http_status = "too-large", "Body too large", 413


class UnsupportedMediaType(Refused):
    slug, title, http_status = "unsupported-media-type", "Unsupported media type", 415


class NotValid(Refused):
    """Parameters or fields that are not as the OpenAPI document has them; ``errors`` names each."""

    slug, title, http_status = "not-valid", "Not valid", 422


class Busy(Refused):
    slug, title, http_status = "busy", "Busy", 503
    headers = {"Retry-After": "1"}


class Unexpected(Refused):
    slug, title, http_status = "unexpected", "Internal error", 500


def problem_response(request: HttpRequest, error: BaseException) -> HttpResponse:
    """The answer to a request that ended in any error."""
    known = _known(error)
    if known is None:
        # Neither the error's text nor the request's: both can hold what an agent sent. See historyapp.log.
        log.error("%s %s failed", request.method, request.path, exc_info=error)
        known = Unexpected("The server failed to carry this out. The operator finds the reason in its log.")
    elif isinstance(known, Busy):
        log.warning("%s %s: the database is busy", request.method, request.path, exc_info=error)
    elif isinstance(known, ModelCallError):
        log.warning("%s %s: %s", request.method, request.path, known.detail)
    headers = known.headers if isinstance(known, Refused) else {}
    return HttpResponse(
        dump_json(problem(known)), status=known.http_status, content_type=MEDIA_TYPE, headers=dict(headers)
    )


def problem(error: PlayheadError) -> dict[str, Any]:
    """The problem document. It never repeats more than a little of what was sent."""
    return {
        **{name: _clipped(value) for name, value in error.fields.items()},
        "type": f"{ERRORS}#{error.slug}",
        "title": error.title,
        "status": error.http_status,
        "detail": _shortened(error.detail, _LONGEST_DETAIL),
    }


def _known(error: BaseException) -> PlayheadError | None:
    """The expected error that an exception stands for; None when it is none."""
    if isinstance(error, HttpError) and isinstance(error.__cause__, PlayheadError):
        return error.__cause__  # ninja wraps whatever its parser raises
    match error:
        case PlayheadError():
            return error
        case Http404():
            return NotFound("There is nothing at this address. The calls are listed at /api/v1/docs.")
        case RequestDataTooBig():
            return TooLarge("The body is too large.")
        case TooManyFilesSent():
            return Malformed("The request holds too many files.")
        case MultiPartParserError():
            return Malformed("The body is not valid multipart/form-data.")
        case DisallowedHost():
            return Malformed(
                "This server does not go by that Host. Its operator lists names in ALLOWED_HOSTS."
            )
        case SuspiciousOperation():
            return Malformed("The request holds too many parameters, or suspicious ones.")
        case UnreadablePostError():
            return Malformed("The body ended early.")
        case OperationalError():
            return Busy("The database is busy. Try again in a moment.")
    return None


def _clipped(value: Any) -> Any:
    if isinstance(value, str):
        return _shortened(value, _LONGEST_TEXT)
    if isinstance(value, (list, tuple)):
        return [_clipped(item) for item in value[:_LONGEST_LIST]]
    if isinstance(value, dict):
        return {name: _clipped(item) for name, item in value.items()}
    return value


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
