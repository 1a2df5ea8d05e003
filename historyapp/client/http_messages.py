"""Builds HTTP requests from API calls, and parses responses. Both clients use it."""

import inspect
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, Generic, TypeVar, get_args
from uuid import uuid4

import httpx

from historyapp.client.api_call import ApiCall
from historyapp.client.outage import OnOutage, outage_of
from historyapp.client.response_checks import check_success, error_for, not_playhead
from historyapp.client.retrying import Attempts, Outcome, describe_outcome
from historyapp.client.spool import Write
from historyapp.core.json import dump_json
from historyapp.wire.problems import ServerUnavailable

T = TypeVar("T")
HttpClient = TypeVar("HttpClient", bound=httpx.Client | httpx.AsyncClient)
_ROOT = "/api/v1"
_KEY = re.compile(r"[!-~]+")
_MAX_TEXT = 300
RECONNECT_SECONDS = 1.0
"""Seconds before an event stream that ended is opened again."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0
"""Seconds between two requests for the state of a run."""


def as_method(
    describe: Callable[..., Any], method: Any, returns: Any = None, *, first: int = 0
) -> Callable[..., Any]:
    """The method with the name, docstring and signature of its endpoint's function, for ``help``.

    Args:
        returns: the generic type of the method's return value; None: the method returns the response itself.
        first: the index of the function's first parameter that the method also has.
    """
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(describe)
    (response,) = get_args(signature.return_annotation)
    wraps(describe)(method)
    method.__signature__ = signature.replace(
        parameters=[self_parameter, *list(signature.parameters.values())[first:]],
        return_annotation=returns[response] if returns else response,
    )
    typed_method: Callable[..., Any] = method
    return typed_method


def client_options(base_url: str, api_key: str, timeout: float) -> dict[str, Any]:
    """The options of an httpx client. The address may end in ``/api/v1``.

    Raises:
        ValueError: for a key that cannot be sent in a header. The message does not contain the key.
    """
    if not _KEY.fullmatch(api_key):
        raise ValueError("The API key must be visible ASCII characters without spaces, such as ph_…")
    return {
        "base_url": base_url.rstrip("/").removesuffix(_ROOT) + _ROOT,
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": "playhead-client"},
        "timeout": timeout,
        "verify": _certificates(),
    }


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates. Loading them takes 20 ms, which httpx spends for each client."""
    return httpx.create_ssl_context()


class ServerConnection(Generic[HttpClient]):
    """An httpx client, and the address of its server."""

    def __init__(self, http: HttpClient, timeout: float, on_outage: OnOutage) -> None:
        self._http, self._timeout, self._outage = http, timeout, outage_of(on_outage)
        self._address = str(http.base_url.copy_with(userinfo=b""))
        self._server = self._address.rstrip("/").removesuffix(_ROOT)
        """The server's address in errors: without a password, and without ``/api/v1``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address!r})"

    def _attempt_of(self, write: Write, seconds: float) -> tuple[ApiCall[None], httpx.Request, float]:
        """The arguments of ``_attempt`` for a write from the spool: an API call, for log lines and errors;
        the request; and the seconds that the attempt may take.
        """
        headers = {"Idempotency-Key": write.key, "Content-Type": "application/json"}
        request = self._http.build_request("POST", write.path, headers=headers, content=write.body)
        api_call = ApiCall("POST", write.path, lambda _: None, idempotency_key=write.key)
        return api_call, request, min(seconds, self._timeout)


def request_of(http: httpx.Client | httpx.AsyncClient, api_call: ApiCall[Any]) -> httpx.Request:
    """The request. It can be sent repeatedly, because its ``Idempotency-Key`` stays the same.

    Raises:
        ValueError: when the body cannot be written as JSON.
    """
    headers = (
        {"Idempotency-Key": api_call.idempotency_key or uuid4().hex} if api_call.method == "POST" else {}
    )
    if api_call.accept:
        headers["Accept"] = api_call.accept
    if api_call.files:
        files = [("files", file) for file in api_call.files]
        return http.build_request(
            api_call.method, api_call.path, headers=headers, files=files, data=api_call.body
        )
    content = None
    if api_call.body is not None:
        try:
            content = dump_json(api_call.body).encode()
        except (TypeError, ValueError, RecursionError) as error:
            body_name = f"The body of {api_call.method} {api_call.path}"
            raise ValueError(f"{body_name} cannot be written as JSON: {error}") from error
        headers["Content-Type"] = "application/json"
    return http.build_request(
        api_call.method, api_call.path, headers=headers, params=api_call.query, content=content
    )


def limit_attempt(request: httpx.Request, api_call: ApiCall[Any], seconds: float) -> None:
    """Limits each network operation of the next attempt to the time limit of the attempt."""
    timeouts = request.extensions["timeout"]
    limits = {name: seconds if value is None else min(value, seconds) for name, value in timeouts.items()}
    if api_call.silence is not None:
        limits["read"] = api_call.silence
    request.extensions["timeout"] = limits


def checked(outcome: Outcome, api_call: ApiCall[Any], attempts: Attempts, server: str) -> httpx.Response:
    """The response of a request that succeeded.

    Raises:
        PlayheadError: when the request failed.
    """
    if isinstance(outcome, httpx.RequestError):
        attempts_text = f"{attempts.count} attempt{'s' if attempts.count > 1 else ''}"
        seconds = time.monotonic() - attempts.started
        raise unavailable(outcome, api_call, server, f" in {seconds:.1f} s and {attempts_text}")
    if not outcome.is_success:
        raise error_for(outcome, server)
    check_success(outcome, server, streamed=not outcome.is_closed)
    return outcome


def unavailable(
    error: httpx.RequestError, api_call: ApiCall[Any], server: str, duration: str = ""
) -> ServerUnavailable:
    """The error for a request that got no response, or an incomplete response."""
    return ServerUnavailable(
        f"{api_call.method} {api_call.path} got no response from {server}{duration}: "
        f"{describe_outcome(error)}. Check that Playhead runs there and that this machine reaches it."
    )


def parse_response(api_call: ApiCall[T], response: httpx.Response, server: str) -> T:
    """The parsed content of a response.

    Raises:
        NotPlayhead: when the content is not the expected JSON.
    """
    try:
        return api_call.read(json.loads(response.content) if response.content else None)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:_MAX_TEXT]
        raise not_playhead(response, server, f"this client cannot read it: {reason}") from error


def pauses(timeout: float | None) -> Iterator[float]:
    """Seconds to wait between two requests for the state of a run: short at first, then longer.

    Raises:
        TimeoutError: from ``next``, when ``timeout`` seconds have passed.
    """
    end = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        remaining = pause if end is None else end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(f"The run is still running after {timeout:g} seconds.")
        yield min(pause, remaining)
        pause = min(pause * 1.5, MAX_PAUSE)
