"""Authenticates requests by an API key, checks the key's scopes, and finds sessions in the key's project.

A browser session is not accepted here: another site could make the browser send requests (CSRF).
"""

import logging
from uuid import UUID

from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone
from ninja.security.base import AuthBase

from historyapp.api.fields import not_found
from historyapp.models import ApiKey, Session
from historyapp.models.compiled import CompiledQuery
from historyapp.services.keys import find_key, record_use
from historyapp.wire.problems import Forbidden, ServerUnavailable, Unauthenticated

log = logging.getLogger(__name__)

SCOPES = {"GET": "read", "POST": "write", "PATCH": "write", "PUT": "write", "DELETE": "admin"}
"""The scope that each method needs."""
LOCAL_KEY = "playhead.local_key"
"""The WSGI variable with the key of a command that runs the API in its own process. This key is not stored.
No client can set the variable: the variables of headers begin with ``HTTP_``, and their values are text."""
_SEND_A_KEY = "Send an API key as Authorization: Bearer ph_…"
NO_KEY = f"The request has no API key. {_SEND_A_KEY}"
NO_SUCH_KEY = f"There is no such API key. {_SEND_A_KEY}"


class ApiRequest(HttpRequest):
    """A request whose key has been checked."""

    auth: ApiKey
    concerned_sessions: frozenset[UUID]
    """Set by views whose path does not name the session, or not the only one."""


class BearerKey(AuthBase):
    """``Authorization: Bearer ph_…``"""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = (
        "An API key of the project. GET needs the scope read, POST, PATCH and PUT write, DELETE admin. "
        "Requests that call a provider's model also need spend."
    )

    def __call__(self, request: HttpRequest) -> ApiKey:
        """The key, with its project loaded.

        Raises:
            Unauthenticated: when the request has no valid key.
            Forbidden: when the key lacks the scope for the method.
        """
        local = request.META.get(LOCAL_KEY)
        if isinstance(local, ApiKey):
            check_scope(local, SCOPES[request.method or "GET"])
            return local
        token = bearer_token(request)
        if not token:
            raise Unauthenticated(NO_KEY)
        key = find_key(token)
        if key is None:
            raise Unauthenticated(NO_SUCH_KEY)
        now = timezone.now()
        if problem := key.problem(now):
            raise Unauthenticated(f"This API key {problem}. Use another one.")
        try:
            record_use(key, now)
        except (DatabaseError, ServerUnavailable):
            # The time of last use is not important enough to fail the request.
            log.warning("The time of a key's last use could not be stored", exc_info=True)
        check_scope(key, SCOPES[request.method or "GET"])
        return key


def check_scope(key: ApiKey, scope: str) -> None:
    """Raises ``Forbidden`` when the key lacks the scope."""
    if scope not in key.scopes:
        raise Forbidden(
            f"This API key lacks the scope `{scope}`. It has {', '.join(key.scopes)}.", scope=scope
        )


def actor(request: ApiRequest) -> str:
    """The name of the request's key in audit records."""
    return f"key:{request.auth.prefix}" if request.auth.prefix else request.auth.name


_SESSIONS = CompiledQuery(
    lambda id, project: Session.objects.filter(pk=id, project=project), UUID(int=1), UUID(int=2)
)
_SESSIONS_WITH_METADATA = CompiledQuery(
    lambda id, project: Session.objects.filter(pk=id, project=project).defer(None), UUID(int=1), UUID(int=2)
)


def find_session(request: ApiRequest, session_id: UUID, *, with_metadata: bool = False) -> Session:
    """The project's session.

    Args:
        with_metadata: load the metadata too. Otherwise it is loaded on first use.

    Raises:
        NotFound: when the project has no session with this id, even if another project has one.
    """
    query = _SESSIONS_WITH_METADATA if with_metadata else _SESSIONS
    for session in query.rows(session_id, request.auth.project.pk):
        return session
    raise not_found("session", session_id)


def bearer_token(request: HttpRequest) -> str:
    """The bearer token in the ``Authorization`` header, or an empty string."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
