"""The checks that ``root`` applies to all routes: strict query parameters, and one write for each
Idempotency-Key.
"""

import hashlib
import re
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from ninja.operation import Operation

from historyapp.api.auth import ApiRequest
from historyapp.api.responses import REPLAYED
from historyapp.services.idempotency import StoredResponse, carry_out_once, find_stored_response
from historyapp.wire.problems import NotValid

View = Callable[..., HttpResponseBase]

_KEY = "HTTP_IDEMPOTENCY_KEY"  # request.headers would first copy all headers
_HANDLES_OWN_KEY: set[View] = set()
_ID = re.compile(r'"(?:id|session)": ?"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')


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
            return view(request, **arguments)
        return once_per_key(request, lambda: view(request, **arguments))

    return checked


def handles_own_key(view: View) -> View:
    """Marks a view that handles its ``Idempotency-Key`` itself: it does slow work after its first write, or
    stores nothing.

    It calls :func:`earlier_response` first, and does its writes within :func:`once_per_key`.
    """
    _HANDLES_OWN_KEY.add(view)
    return view


def earlier_response(request: ApiRequest) -> HttpResponse | None:
    """The stored response to an earlier, equal request with the same key, or None."""
    key = request.META.get(_KEY)
    first = find_stored_response(request.auth.project, key, fingerprint(request)) if key is not None else None
    return stored_response(first) if first else None


def once_per_key(request: ApiRequest, make_response: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Returns the stored response to an earlier, equal request with the same key. Without one, returns the
    response of ``make_response``, and stores it if the request has a key.
    """
    key = request.META.get(_KEY)
    if key is None:
        return make_response()

    def respond() -> StoredResponse:
        response = make_response()
        assert isinstance(response, HttpResponse)
        body = response.content.decode()
        return StoredResponse(response.status_code, body, _sessions(request, body))

    return stored_response(carry_out_once(request.auth.project, key, fingerprint(request), respond))


def _sessions(request: ApiRequest, body: str) -> frozenset[UUID]:
    """The ids of the sessions that a request concerns.

    The path names the session, except if the request creates sessions: then the response has their ids.
    """
    assert request.resolver_match
    session = request.resolver_match.kwargs.get("session_id")
    if session is not None and not request.path.endswith("/forks"):
        return frozenset([UUID(str(session))])
    return frozenset(UUID(id) for id in _ID.findall(body))


def stored_response(stored: StoredResponse) -> HttpResponse:
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
