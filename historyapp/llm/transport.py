"""Sends HTTP requests to a provider through its SDK, and reads the JSON events of the response."""

import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from historyapp.core.json import MAX_RECORD_DEPTH, depth_exceeds
from historyapp.llm.errors import (
    ModelCallError,
    ProviderUnreachable,
    ResponseBroken,
    TimedOut,
    error_from,
    without_keys,
)
from historyapp.llm.request import TimeLimits
from historyapp.llm.sdks import Sdk

if TYPE_CHECKING:
    import httpx2

MAX_RESPONSE = 64 * 1024 * 1024
"""The maximum size of one streamed response, in bytes."""

Event = dict[str, Any]


class Deadline:
    """The time at which a model call must end."""

    def __init__(self, limits: TimeLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._end = clock() + limits.total

    def remaining(self) -> float:
        """Seconds until the deadline; 0 or less after it."""
        return self._end - self._clock()


class Connection:
    """A provider's SDK for one attempt. ``provider`` is its display name."""

    def __init__(self, sdk: Sdk, provider: str, deadline: Deadline) -> None:
        self._sdk = sdk
        self._provider = provider
        self._deadline = deadline
        self._response: httpx2.Response | None = None

    def post(self, path: str, body: Mapping[str, Any]) -> Event:
        """Sends a POST and returns the JSON object of the response.

        Raises:
            ModelCallError: if the response is an error or not a JSON object.
        """
        with self._failures():
            response = self._sdk.client.post(path, cast_to=object, body=body, options=self._options())
        return self._event(response)

    def events(self, path: str, body: Mapping[str, Any]) -> Generator[Event]:
        """Yields the events of a streamed response, unchanged. Closing the generator closes the connection.

        Raises:
            ModelCallError: if there is no response, or the stream breaks. A stream can also end early without
                an error, so the caller must check that the response is complete.
        """
        stream_class = self._sdk.module.Stream[object]
        with self._failures():
            stream = self._sdk.client.post(
                path, cast_to=object, body=body, options=self._options(), stream=True, stream_cls=stream_class
            )
        with closing(stream), self._failures():
            self._response = stream.response
            try:
                self._expect_events(stream.response)
                stream.response.stream = self._bounded(stream.response.stream)
                for event in stream:
                    yield self._event(event)
            finally:
                self._response = None

    def abort(self) -> None:
        """Closes the response. A thread that waits for it gets an error."""
        response = self._response
        network = response.extensions.get("network_stream") if response is not None else None
        connected = network.get_extra_info("socket") if network is not None else None
        if connected is not None:
            with suppress(OSError):  # closed already
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def _options(self) -> dict[str, Any]:
        from httpx2 import Timeout

        limits, seconds = self._deadline.limits, max(0.001, self._deadline.remaining())
        read = min(limits.read, seconds)
        return {"timeout": Timeout(read, connect=min(limits.connect, seconds)), "max_retries": 0}

    def _event(self, event: Any) -> Event:
        if not isinstance(event, dict):
            raise self._response_broken("sent something that is not a JSON object", retryable=True)
        if depth_exceeds(event, MAX_RECORD_DEPTH):
            raise self._response_broken("sent JSON that is nested too deeply", retryable=False)
        return event

    def _expect_events(self, response: "httpx2.Response") -> None:
        media_type = response.headers.get("content-type", "")
        if "text/event-stream" in media_type.lower():
            return
        first_bytes = next(response.iter_bytes(2048), b"")
        message = without_keys(first_bytes.decode("utf-8", "replace"), self._sdk.key)
        sent = repr(media_type[:100]) if media_type else "a response without a content type"
        raise self._response_broken(f"sent {sent} instead of an event stream", message)

    def _bounded(self, stream: Any) -> Any:
        """Limits the size and the time of a response. Pings do not extend the time."""
        from httpx2 import SyncByteStream

        deadline, too_late, broken = self._deadline, self._too_late, self._response_broken

        class Bounded(SyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                total = 0
                for part in stream:
                    total += len(part)
                    if deadline.remaining() <= 0:
                        raise too_late()
                    if total > MAX_RESPONSE:
                        raise broken(f"sent more than {MAX_RESPONSE} bytes", retryable=False)
                    yield part

            def close(self) -> None:
                stream.close()

        return Bounded()

    def _response_broken(self, fault: str, message: str = "", *, retryable: bool = False) -> ResponseBroken:
        return ResponseBroken(
            f"{self._provider} {fault}.",
            provider=self._provider,
            provider_message=message,
            retryable=retryable,
        )

    def _too_late(self) -> TimedOut:
        total = self._deadline.limits.total
        return TimedOut(f"The model call took longer than {total:g} seconds.", provider=self._provider)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Converts errors of the SDK and of the network to ours. The originals may contain the key."""
        import httpx2

        try:
            yield
        except ModelCallError:
            raise
        except (ValueError, RecursionError):
            raise self._response_broken("sent something that is not JSON", retryable=True) from None
        except Exception as error:
            failure = self._translate(error)
            if failure is None:
                raise
            unconnected = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
            failure.never_sent = isinstance(error, unconnected) or isinstance(error.__cause__, unconnected)
            raise failure from None

    def _translate(self, error: Exception) -> ModelCallError | None:
        """The error of this project for an error of the SDK or the network; None for any other error."""
        import httpx2

        sdk, provider = self._sdk.module, self._provider
        match error:
            case sdk.APITimeoutError() | httpx2.TimeoutException():
                if self._deadline.remaining() <= 0:
                    return self._too_late()
                return TimedOut(f"{provider} was silent for too long.", provider=provider, retryable=True)
            case sdk.APIConnectionError() | httpx2.TransportError() | OSError():
                cause = without_keys(str(error.__cause__ or error), self._sdk.key)
                return ProviderUnreachable(
                    f"The connection to {provider} failed: {cause or type(error).__name__}.",
                    provider=provider,
                    retryable=True,
                )
            case sdk.APIStatusError():
                status = None if error.status_code < 300 else error.status_code
                body = error.body if error.body is not None else error.message
                headers = error.response.headers
                return error_from(
                    body, provider=provider, status=status, headers=headers, secret=self._sdk.key
                )
            case sdk.APIError():
                return error_from(error.body, provider=provider, secret=self._sdk.key)
            case httpx2.HTTPError() | httpx2.StreamError() | httpx2.InvalidURL():
                return self._response_broken("sent an invalid HTTP response", retryable=True)
        return None
