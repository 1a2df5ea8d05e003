"""Authentication by an API key in the ``Authorization`` header, its scopes, and the sessions that it reaches.

A browser session does not count here: another site could make the browser send requests (CSRF).
"""

import logging
from uuid import UUID

from django.db import DatabaseError
from django.http import HttpRequest
from django.utils import timezone
from ninja.security.base import AuthBase

from historyapp.api.fields import not_found
from historyapp.models import ApiKey, Session
from historyapp.services.keys import find_key, note_use
from historyapp.wire.problems import Forbidden, StorageFailed, Unauthenticated

log = logging.getLogger(__name__)

SCOPES = {"GET": "read", "POST": "write", "PATCH": "write", "PUT": "write", "DELETE": "admin"}
"""The scope that each method needs."""
LOCAL_KEY = "playhead.local_key"
"""In the WSGI environment, the key of a command that runs the API in its own process. It is not stored. No
client can send it: the variables of headers have other names, and their values are text."""
_HOW = "Send an API key as Authorization: Bearer ph_…"


class ApiRequest(HttpRequest):
    """A request whose key has been checked."""

    auth: ApiKey


class BearerKey(AuthBase):
    """``Authorization: Bearer ph_…``"""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = (
        "An API key of the project. GET needs the scope read, POST, PATCH and PUT write, DELETE admin. "
        "What calls a provider's model needs spend too."
    )

    def __call__(self, request: HttpRequest) -> ApiKey:
        """The key, with its project loaded.

        Raises:
            Unauthenticated: without a usable key.
            Forbidden: when the key lacks the scope for the method.
        """
        local = request.META.get(LOCAL_KEY)
        if isinstance(local, ApiKey):
            check_scope(local, SCOPES[request.method or "GET"])
            return local
        token = bearer_token(request)
        if not token:
            raise Unauthenticated(f"The request has no API key. {_HOW}")
        key = find_key(token)
        if key is None:
            raise Unauthenticated(f"There is no such API key. {_HOW}")
        now = timezone.now()
        if key.revoked_at is not None:
            raise Unauthenticated("This API key has been revoked. Use another one.")
        if key.expires_at is not None and key.expires_at <= now:
            raise Unauthenticated(f"This API key expired at {key.expires_at.isoformat()}. Use another one.")
        try:
            note_use(key, now)
        except (DatabaseError, StorageFailed):
            # The time of last use is not important enough to fail the request.
            log.warning("The time of a key's last use could not be stored", exc_info=True)
        check_scope(key, SCOPES[request.method or "GET"])
        return key


def check_scope(key: ApiKey, scope: str) -> None:
    """Raises ``Forbidden`` when the key lacks the scope."""
    if scope not in key.scopes:
        raise Forbidden(
            f"This API key lacks the scope {scope}. It has: {', '.join(key.scopes)}.", scope=scope
        )


def actor(request: ApiRequest) -> str:
    """The name of the key in audit records."""
    return f"key:{request.auth.prefix}" if request.auth.prefix else request.auth.name


def find_session(request: ApiRequest, session_id: UUID) -> Session:
    """The project's session.

    Raises:
        NotFound: when the project has no session of this id, even if another project has.
    """
    session = Session.objects.filter(pk=session_id, project=request.auth.project).first()
    if session is None:
        raise not_found("session", session_id)
    return session


def bearer_token(request: HttpRequest) -> str:
    """The token in the ``Authorization`` header; empty without one."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
