"""Sends one attempt: a POST with limits of time and size. It never follows a redirect."""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

import httpx

from historyapp.core.errors import Invalid
from historyapp.services.webhooks.received_bytes import limit_received
from historyapp.services.webhooks.targets import TargetRefused, WebhookTarget, addresses_of, parse_target

CONNECT_SECONDS, TOTAL_SECONDS = 5.0, 10.0
"""The time limits for connecting to one address, and for the whole attempt."""
MAX_READ_BYTES, MAX_STORED_BYTES = 64 * 1024, 1024
"""The maximum number of bytes of a response body that are read, and stored."""
MAX_RECEIVED_BYTES = 2 * MAX_READ_BYTES
"""The maximum number of bytes of everything that an attempt receives."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt."""

    status: int | None
    """The response's status; None without a response."""
    error: str
    """What went wrong and what to do; empty after a success."""
    answer: str = ""
    """The beginning of the response's body."""
    milliseconds: int = 0
    retry_after: int = 0
    """The seconds in the response's ``Retry-After``; 0 without one."""

    @property
    def succeeded(self) -> bool:
        return not self.error


def send(url: str, headers: Mapping[str, str], body: str, project: UUID | None = None) -> Attempt:
    """Sends a body to a URL of a project's webhook. Errors of the target are returned, not raised."""
    started = time.monotonic()
    try:
        target = parse_target(url)
        addresses = addresses_of(target, project)
        remaining = TOTAL_SECONDS - (time.monotonic() - started)
        attempt = asyncio.run(_post_within(remaining, target, addresses, {**headers}, body.encode()))
    except (Invalid, TargetRefused) as error:
        attempt = Attempt(None, str(error))
    milliseconds = round((time.monotonic() - started) * 1000)
    return Attempt(attempt.status, attempt.error, attempt.answer, milliseconds, attempt.retry_after)


async def _post_within(
    seconds: float, target: WebhookTarget, addresses: Sequence[str], headers: dict[str, str], body: bytes
) -> Attempt:
    try:
        async with asyncio.timeout(seconds):
            return await _post_to_first(target, addresses, headers, body)
    except TimeoutError:
        return Attempt(None, f"The target did not respond within {TOTAL_SECONDS:.0f} seconds.")
    except httpx.HTTPError as error:
        return Attempt(None, f"The request failed: {type(error).__name__} {error}".strip()[:300])


async def _post_to_first(
    target: WebhookTarget, addresses: Sequence[str], headers: dict[str, str], body: bytes
) -> Attempt:
    """Posts to the first address that accepts a connection."""
    *others, last = addresses
    for address in others:
        try:
            return await _post(target, address, headers, body)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue
    return await _post(target, last, headers, body)


async def _post(target: WebhookTarget, address: str, headers: dict[str, str], body: bytes) -> Attempt:
    """Sends the request to a checked address. Another look-up of the name could return a different
    address."""
    all_headers = {**headers, "host": target.authority, "accept-encoding": "identity", "connection": "close"}
    # Without trust_env, because a proxy would look up the name itself.
    transport = httpx.AsyncHTTPTransport(verify=_certificates(), trust_env=False)
    limit_received(transport, MAX_RECEIVED_BYTES)
    async with (
        httpx.AsyncClient(
            transport=transport, trust_env=False, follow_redirects=False, timeout=_TIMEOUT
        ) as client,
        client.stream(
            "POST",
            httpx.URL(scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode()),
            content=body,
            headers=all_headers,
            extensions={"sni_hostname": target.host},
        ) as response,
    ):
        text = await _read_beginning(response)
        after = response.headers.get("retry-after", "")
        seconds = int(after) if after.isascii() and after.isdecimal() and len(after) < 7 else 0
        return Attempt(response.status_code, _error_of(response), text, 0, seconds)


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates. Loading them takes 20 ms, which httpx spends for each client."""
    return httpx.create_ssl_context(trust_env=False)


_TIMEOUT = httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)


async def _read_beginning(response: httpx.Response) -> str:
    """Reads at most ``MAX_READ_BYTES`` of a body and returns its beginning."""
    beginning, bytes_read = b"", 0
    async for chunk in response.aiter_raw():
        beginning += chunk[: MAX_STORED_BYTES - len(beginning)]
        bytes_read += len(chunk)
        if bytes_read >= MAX_READ_BYTES:
            break
    return beginning.decode("utf-8", "replace")


def _error_of(response: httpx.Response) -> str:
    if response.is_success:
        return ""
    status = response.status_code
    if response.has_redirect_location:
        return f"The target responded with a redirect ({status}). Set the webhook to the new URL."
    return f"The target responded with the status {status}."
