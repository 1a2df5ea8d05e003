"""The checks that ``root`` applies to all routes: strict query parameters, and one write for each
Idempotency-Key.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja.operation import Operation

from historyapp.api.auth import ApiRequest
from historyapp.api.responses import REPLAYED, LongResponse
from historyapp.core.json import dump_json
from historyapp.services.idempotency import (
    KEPT_CHARACTERS,
    StoredResponse,
    carry_out_once,
    find_stored_response,
)
from historyapp.wire.problems import NotValid

View = Callable[..., HttpResponseBase | LongResponse]

_KEY = "HTTP_IDEMPOTENCY_KEY"  # request.headers would first copy all headers
_HANDLES_OWN_KEY: set[View] = set()


def with_shared_checks(view: View) -> View:
    """The view with the checks that all routes share; runs after authentication and validation."""
    operation: Operation = view._ninja_operation  # type: ignore[attr-defined]
    models = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    parameters = frozenset(name for model in models for name in model.__ninja_flatten_map__)

    @wraps(view)
    def checked(request: ApiRequest, **arguments: Any) -> HttpResponseBase:
        unknown = sorted(set(request.GET) - parameters) if request.META.get("QUERY_STRING") else []
        if unknown:
            names = ", ".join(unknown[:5])
            advice = (
                f"Use {', '.join(sorted(parameters))}."
                if parameters
                else "Remove it: this endpoint has no parameters."
            )
            raise NotValid(f"There is no query parameter {names} here. {advice}")
        if request.method != "POST" or view in _HANDLES_OWN_KEY:
            return _made(view(request, **arguments))
        return once_per_key(request, lambda: view(request, **arguments))

    return checked


def handles_own_key(view: View) -> View:
    """Marks a view that handles its ``Idempotency-Key`` itself: it does slow work after its first write,
    stores nothing, or checks a scope that a stored response needs too.

    It may call :func:`earlier_response` first, and does its writes within :func:`once_per_key`.
    """
    _HANDLES_OWN_KEY.add(view)
    return view


def earlier_response(request: ApiRequest) -> HttpResponse | None:
    """The stored response to an earlier, equal request with the same key, or None."""
    key = request.META.get(_KEY)
    first = find_stored_response(request.auth.project, key, fingerprint(request)) if key is not None else None
    return stored_response(first) if first else None


def once_per_key(
    request: ApiRequest, make_response: Callable[[], HttpResponseBase | LongResponse]
) -> HttpResponseBase:
    """Returns the stored response to an earlier, equal request with the same key. Without one, returns the
    response of ``make_response``, and stores it if the request has a key.

    ``make_response`` runs within the transaction of its writes. It must not make a long response there: it
    returns a :class:`LongResponse`, or makes the response before it writes.
    """
    key = request.META.get(_KEY)
    if key is None:
        return _made(make_response())
    made: HttpResponseBase | LongResponse | None = None

    def respond() -> StoredResponse:
        nonlocal made
        made = make_response()
        if isinstance(made, LongResponse):
            return StoredResponse(made.status, None, _sessions(request))
        assert isinstance(made, HttpResponse)
        content = made.content
        body = None if len(content) > KEPT_CHARACTERS else content.decode()
        return StoredResponse(made.status_code, body, _sessions(request))

    session = _session_of_path(request)
    stored = carry_out_once(request.auth.project, key, fingerprint(request), respond, session=session)
    return stored_response(stored) if stored.replayed or made is None else _made(made)


def concerns_sessions(request: ApiRequest, sessions: Iterable[UUID]) -> None:
    """Names the sessions that a request concerns, if its path does not name the only one. When one of them is
    purged, the stored response to the request is emptied.
    """
    request.concerned_sessions = frozenset(sessions)


def is_too_long_to_keep(*texts: str | None) -> bool:
    """Whether the JSON of the texts alone has more characters than a response that is kept."""
    given = [text for text in texts if text]
    if sum(len(text) for text in given) > KEPT_CHARACTERS:
        return True
    return sum(len(dump_json(text)) for text in given) > KEPT_CHARACTERS


def _sessions(request: ApiRequest) -> frozenset[UUID]:
    named: frozenset[UUID] | None = getattr(request, "concerned_sessions", None)
    if named is not None:
        return named
    session = _session_of_path(request)
    return frozenset() if session is None else frozenset([session])


def _session_of_path(request: ApiRequest) -> UUID | None:
    assert request.resolver_match
    session = request.resolver_match.kwargs.get("session_id")
    return None if session is None else UUID(str(session))


def _made(response: HttpResponseBase | LongResponse) -> HttpResponseBase:
    return response.response() if isinstance(response, LongResponse) else response


def stored_response(stored: StoredResponse) -> HttpResponse:
    assert stored.body is not None
    headers = REPLAYED if stored.replayed else None
    return HttpResponse(stored.body, status=stored.status, content_type="application/json", headers=headers)


def fingerprint(request: ApiRequest) -> str:
    """A hash of the request's method, path, query and body."""
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    if request.content_type != "multipart/form-data":
        digest.update(request.body)
        return digest.hexdigest()
    # The boundary between the parts differs in each request, so only the parts are hashed.
    for name, value in sorted(request.POST.items()):
        digest.update(repr((name, value)).encode())
    for file in request.FILES.getlist("files"):
        digest.update(repr((file.name, file.size)).encode())
        for chunk in file.chunks():
            digest.update(chunk)
        file.seek(0)
    return digest.hexdigest()
