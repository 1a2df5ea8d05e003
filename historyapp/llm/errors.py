"""Errors of model calls, the same for every SDK. No error contains a key.

An invalid request or configuration (an unknown model, a missing key) raises ``core.errors.Invalid``.
"""

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from types import MappingProxyType
from typing import Any, ClassVar

from historyapp.core.errors import PlayheadError
from historyapp.core.json import DUMP_ERRORS, dump_json
from historyapp.core.text import preview

MAX_MESSAGE = 500
"""The maximum number of characters of a provider's message in an error."""

_KEYLIKE = re.compile(r"\b(?:sk|pk|rk|key)-[\w*.-]{4,}|Bearer\s+\S+", re.IGNORECASE)

_HTML = re.compile(r"\s{0,100}<(?:!doctype|html)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


class ModelCallError(PlayheadError):
    """Base of these errors. ``retryable``: whether the same request may succeed later."""

    code = "model-call-failed"
    reason: ClassVar[str] = "failed"

    def __init__(
        self,
        detail: str,
        *,
        provider: str,
        status: int | None = None,
        provider_message: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        optional = {"provider_status": status, "words": provider_message or None, "retry_after": retry_after}
        fields = {name: value for name, value in optional.items() if value is not None}
        super().__init__(detail, reason=self.reason, provider=provider, retryable=retryable, **fields)
        self._summary = detail
        self.provider = provider
        self.provider_status = status
        self.provider_message = provider_message
        self.retryable = retryable
        self.retry_after = retry_after
        """Seconds that the provider asks to wait, or None."""
        self.attempts = 1
        self.never_sent = False
        """Whether the connection failed before the request was sent, so that the provider bills nothing."""
        self._set_detail()

    def add_target(self, model: str, address: str) -> None:
        """Adds the requested model and the server to the message."""
        self.fields |= {"model": model, "address": address, "attempts": self.attempts}
        self._set_detail(f"Model {model} at {address}, {self.attempts} attempt{'s' * (self.attempts != 1)}.")

    def _set_detail(self, target: str = "") -> None:
        quoted = f"Provider message: {self.provider_message}" if self.provider_message else ""
        self.detail = " ".join(filter(None, (self._summary, target, quoted)))
        self.args = (self.detail,)


class RequestRefused(ModelCallError):
    """The provider refuses this request. A retry would be refused too."""

    reason = "request-refused"


class KeyRefused(ModelCallError):
    """The API key is invalid or lacks a permission."""

    reason = "key-refused"


class LimitReached(ModelCallError):
    """A rate limit, which can be retried, or a spending limit, which cannot."""

    reason = "limit-reached"


class ProviderFailed(ModelCallError):
    """The provider is overloaded or has an internal error."""

    reason = "provider-failed"


class ProviderUnreachable(ModelCallError):
    """The connection failed, or it broke before the response started."""

    reason = "provider-unreachable"


class TimedOut(ModelCallError):
    """The provider sent nothing for too long, or the whole model call took too long."""

    reason = "timed-out"


class ResponseBroken(ModelCallError):
    """The response ended early, or does not follow the provider's API."""

    reason = "answer-broken"


def without_keys(text: str, *secrets: str) -> str:
    """A provider's error text as one short line, without anything that is or looks like an API key.

    Proxies send HTML pages. Their tags are removed.
    """
    for secret in filter(None, secrets):
        text = text.replace(secret, "[key]")
    text = text[: 8 * MAX_MESSAGE]
    if _HTML.match(text):
        text = _TAG.sub(" ", text)
    return _KEYLIKE.sub("[key]", preview(text, MAX_MESSAGE))


# A stream's HTTP status is always 200. The status of an error in a stream follows from its type or code.
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "bio_policy": 400,
    "billing_error": 402,
    "conflict_error": 409,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "timeout_error": 504,
}
# These errors also have the status 429, but a retry does not help.
_SPENT = {
    "billing_hard_limit_reached",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    "insufficient_quota",
}


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a provider asks to wait: ``retry-after-ms``, else ``Retry-After`` (a number or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if isfinite(seconds) else None
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def error_from(
    body: Any,
    *,
    provider: str,
    status: int | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    secret: str = "",
) -> ModelCallError:
    """Creates an exception from a provider's error object.

    Args:
        status: the HTTP status, or None inside a stream.
        headers: the response's headers, which may say whether and when to retry.
        secret: the API key, which is removed from the message.
    """
    error = body.get("error", body) if isinstance(body, Mapping) else body
    fields = error if isinstance(error, Mapping) else {}
    details = fields.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else None
    names = {name for name in (fields.get("type"), fields.get("code"), code) if isinstance(name, str)}
    if status is None:
        status = next((_STATUS_OF_TYPE[name] for name in sorted(names) if name in _STATUS_OF_TYPE), 500)
    error_class, detail, retryable = _classify(status, is_spent=bool(names & _SPENT))
    should_retry = headers.get("x-should-retry")
    return error_class(
        f"{detail.format(provider=provider)} ({status}).",
        provider=provider,
        status=status,
        provider_message=without_keys(_message(error), secret),
        retryable=should_retry == "true" if should_retry in ("true", "false") else retryable,
        retry_after=retry_after(headers),
    )


def _message(error: Any) -> str:
    """The message of an error object, or the whole object as JSON. OpenAI and Anthropic use ``message``."""
    if isinstance(error, str):
        return error
    if not isinstance(error, Mapping) or not error:
        return ""
    for name in ("message", "detail", "error_description", "msg"):
        if isinstance(error.get(name), str) and error[name]:
            return str(error[name])
    try:
        return dump_json(error)
    except DUMP_ERRORS:
        return ""


def _classify(status: int, *, is_spent: bool) -> tuple[type[ModelCallError], str, bool]:
    """The exception's class and message, and whether to retry: 408, 409, 429 and 5xx, like the SDKs."""
    if status in (401, 403):
        return KeyRefused, "{provider} does not accept the API key for this request", False
    if status == 402 or is_spent:
        return LimitReached, "The account's spending limit at {provider} is reached", False
    if status == 429:
        return LimitReached, "The rate limit at {provider} is reached", True
    if status in (408, 504):
        return TimedOut, "{provider} took too long", True
    if status == 409 or status >= 500:
        return ProviderFailed, "{provider} could not process the request", True
    return RequestRefused, "{provider} refuses the request", False
