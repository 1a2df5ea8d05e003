"""Descriptions as HTTP requests and answers as values: all that the two transports share."""

import inspect
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args
from uuid import uuid4

import httpx

from historyapp.client.description import Call
from historyapp.client.errors import ServerFailed, ServerUnavailable, error_of
from historyapp.client.retrying import Outcome, pause_before_retry, retry_after
from historyapp.core.text import dump_json

T = TypeVar("T")
log = logging.getLogger("historyapp.client")
_ROOT = "/api/v1"
_KEY = re.compile(r"[!-~]+")
_LONGEST_TEXT = 300
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two looks at something that takes a while."""


_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
M = TypeVar("M", bound=Callable[..., Any])


def as_method(method: M, returns: Any = None) -> M:
    """The method with a signature that ``help`` shows as it is called: its description's, with self.

    Args:
        returns: the generic type that the answer comes in; None: the answer itself.
    """
    signature = inspect.signature(method)
    (answer,) = get_args(signature.return_annotation)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[_SELF, *signature.parameters.values()],
        return_annotation=returns[answer] if returns else answer,
    )
    return method


def api_url(base_url: str) -> str:
    """Where the calls lie, given the server's address, with or without ``/api/v1``."""
    return base_url.rstrip("/").removesuffix(_ROOT) + _ROOT


def headers(api_key: str) -> dict[str, str]:
    """The headers of every request.

    Raises:
        ValueError: for a key that no header can hold; the text does not repeat it.
    """
    if not _KEY.fullmatch(api_key):
        raise ValueError("The API key must be visible ASCII characters without spaces, as in ph_…")
    return {"Authorization": f"Bearer {api_key}", "User-Agent": "playhead-client"}


def request_of(http: httpx.Client | httpx.AsyncClient, call: Call[Any]) -> httpx.Request:
    """The request, to be sent as often as it takes: its ``Idempotency-Key`` stays the same.

    Raises:
        ValueError: when the body cannot be written as JSON.
    """
    extra = {"Idempotency-Key": call.idempotency_key or uuid4().hex} if call.method == "POST" else {}
    if call.files:
        files = [("files", file) for file in call.files]
        return http.build_request(call.method, call.path, headers=extra, files=files, data=call.body)
    content = None
    if call.body is not None:
        content = _json(call).encode()
        extra["Content-Type"] = "application/json"
    return http.build_request(
        call.method,
        call.path,
        headers=extra,
        params=call.query,
        content=content,
        timeout=_timeout(http.timeout, call.silence),
    )


def pause_after(outcome: Outcome, attempt: int, attempts: int, call: Call[Any]) -> float | None:
    """Seconds until the next attempt; None when the outcome is final."""
    if attempt >= attempts:
        return None
    pause = pause_before_retry(outcome, attempt, repeatable=call.repeatable)
    if pause is not None:
        log.warning("%s %s: %s; again in %.2f s", call.method, call.path, _short(outcome), pause)
    return pause


def settled(outcome: Outcome, call: Call[Any]) -> httpx.Response:
    """The answer, if it is one.

    Raises:
        PlayheadError: if not.
    """
    if isinstance(outcome, httpx.RequestError):
        raise unavailable(outcome, call)
    if outcome.is_success:
        return outcome
    raise error_of(_problem(outcome))


def unavailable(error: httpx.RequestError, call: Call[Any]) -> ServerUnavailable:
    """The error for a request that got no answer, or not all of it."""
    return ServerUnavailable({"detail": f"{call.method} {call.path} got no answer: {_short(error)}."})


def value_of(call: Call[T], response: httpx.Response) -> T:
    """What the answer says.

    Raises:
        ServerFailed: when it is not what the call answers.
    """
    try:
        return call.read(json.loads(response.content) if response.content else None)
    except (ValueError, RecursionError) as error:
        detail = f"The answer to {call.method} {call.path} is none that this client knows: {error}"
        raise ServerFailed({"status": response.status_code, "detail": detail[:_LONGEST_TEXT]}) from error


def pauses(timeout: float | None) -> Iterator[float]:
    """Seconds to wait between two looks at something that takes a while: soon at first, then more seldom.

    Raises:
        TimeoutError: from ``next``, once ``timeout`` seconds are over.
    """
    end = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE
    while True:
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"It is still under way after {timeout:g} seconds.")
        yield min(pause, left)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _timeout(usual: httpx.Timeout, silence: float | None) -> httpx.Timeout:
    if silence is None:
        return usual
    return httpx.Timeout(connect=usual.connect, read=silence, write=usual.write, pool=usual.pool)


def _json(call: Call[Any]) -> str:
    try:
        return dump_json(call.body)
    except (TypeError, ValueError, RecursionError) as error:
        what = f"The body of {call.method} {call.path}"
        raise ValueError(f"{what} cannot be written as JSON: {error}") from error


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        text = response.text[:_LONGEST_TEXT]
        found = {"detail": f"{response.url.host} answered {response.status_code} {text}".strip()}
    wait = retry_after(response)
    return {**found, "status": response.status_code} | ({"retry_after": wait} if wait is not None else {})


def _short(outcome: Outcome) -> str:
    if isinstance(outcome, httpx.Response):
        return f"status {outcome.status_code}"
    return f"{type(outcome).__name__} {outcome}".strip()
