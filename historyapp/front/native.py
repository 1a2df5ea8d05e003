"""Paths that are served in the event loop, without a thread, and the server's own error responses.

Requests that mostly wait belong here: a coroutine takes a few kilobytes, a thread a database connection.
Nothing here may block, because the event loop serves all clients.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from historyapp.api.problems import challenge, problem
from historyapp.core.errors import PlayheadError
from historyapp.core.json import dump_json
from historyapp.front.bodies import Receive
from historyapp.front.environ import Scope
from historyapp.front.limits import bearer_token
from historyapp.front.outbox import Head
from historyapp.log import new_request_id
from historyapp.wire.problems import MEDIA_TYPE, Unauthenticated, problem_type

Send = Callable[[dict[str, Any]], Awaitable[None]]
NativeRoute = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application for one path. The request's key, length and rate have not been checked."""


async def health(scope: Scope, receive: Receive, send: Send) -> None:
    """Reports that the process runs, even while all threads are busy."""
    is_read = scope["method"] in ("GET", "HEAD")
    status, body = (200, b"ok\n") if is_read else (405, b"Only GET and HEAD.\n")
    headers = [
        (b"content-type", b"text/plain"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        _request_id(dict(scope["headers"])),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


NATIVE: dict[str, NativeRoute] = {"/healthz": health}


def error_response(path: str, headers: dict[bytes, bytes], error: PlayheadError) -> tuple[Head, bytes]:
    """A problem document for the API, plain text for pages. Closes the connection: the body may be unread."""
    head = [(b"connection", b"close"), (b"x-content-type-options", b"nosniff"), _request_id(headers)]
    if (seconds := error.fields.get("retry_after")) is not None:
        head.append((b"retry-after", str(seconds).encode()))
    if isinstance(error, Unauthenticated):
        key = bearer_token(headers.get(b"authorization", b""))
        head.append((b"www-authenticate", challenge(key).encode()))
    if path.startswith("/api/"):
        body, media_type = dump_json(problem(error)).encode(), MEDIA_TYPE
    else:
        body, media_type = f"{error.detail}\n".encode(), "text/plain; charset=utf-8"
    head += [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    return (problem_type(error).status, head), body


def _request_id(headers: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    return b"x-request-id", new_request_id(headers.get(b"x-request-id", b"").decode("latin-1")).encode()
