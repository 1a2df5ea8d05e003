"""Sends HTTP requests to a provider through its SDK, and reads the JSON events of the response."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from historyapp.core.json import MAX_RECORD_DEPTH, depth_exceeds, parse_lenient
from historyapp.llm.errors import (
    ModelCallError,
    ProviderUnreachable,
    RequestRefused,
    ResponseBroken,
    TimedOut,
    error_from,
    without_keys,
)
from historyapp.llm.network import MAX_BODY, LimitedStream, limited_by
from historyapp.llm.pace import PACE
from historyapp.llm.probabilities import without_probabilities
from historyapp.llm.request import TimeLimits
from historyapp.llm.response_limits import Event, EventCount, MemoryInUse, TooMuch
from historyapp.llm.sdks import Sdk
from historyapp.llm.server_sent_events import MAX_EVENT, EventTooLong, read_events

if TYPE_CHECKING:
    import httpx2

MAX_RESPONSE = 64 * 1024 * 1024
"""The maximum size of one response, in bytes from the network."""


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
        self._connection: LimitedStream | None = None
        self._is_aborted = False
        self._received = 0
        self._rest: Callable[[], None] = lambda: None

    def remaining(self) -> float:
        return self._deadline.remaining()

    def begin_read(self) -> None:
        self._rest()

    def use_connection(self, connection: LimitedStream) -> None:
        self._connection = connection
        if self._is_aborted:  # while the connection was opened
            connection.abort()

    def count(self, received: int) -> None:
        self._received += received
        if self._received > MAX_RESPONSE:
            raise self.too_much(TooMuch(f"{MAX_RESPONSE} bytes"))

    def too_much(self, error: TooMuch) -> ResponseBroken:
        """The error for a response that exceeds a limit."""
        if isinstance(error, MemoryInUse):
            return self._response_broken(
                f"sent a long response while the memory for long responses is in use: it would take more "
                f"than {error}. Make the call again when they have ended"
            )
        return self._response_broken(
            f"sent more than {error}, which Playhead does not read. Request a shorter response "
            f"(`max_output_tokens`), or check the server of {self._variable()}"
        )

    def post(self, path: str, body: Mapping[str, Any]) -> Event:
        """Sends a POST and returns the JSON object of the response.

        Raises:
            ModelCallError: if the response is an error or not a JSON object.
        """
        with self._sent(path, body) as response:
            content = bytearray()
            for part in self._parts(response):
                content += part
                if len(content) > MAX_BODY:
                    raise TooMuch(f"{MAX_BODY} bytes")
            return self._checked(parse_lenient(content.decode("utf-8", "surrogatepass")))

    def events(
        self, path: str, body: Mapping[str, Any], drop_unread: Callable[[Event], None]
    ) -> Generator[Event]:
        """Yields the events of a streamed response. Closing the generator closes the connection.

        Args:
            drop_unread: removes what nobody reads from an event, before its values are counted.

        Raises:
            ModelCallError: if there is no response, or the stream breaks. A stream can also end early without
                an error, so the caller must check that the response is complete.
        """
        count = EventCount()
        with self._sent(path, body) as response:
            self._expect_events(response)
            for name, data in read_events(self._parts(response)):
                if data.startswith("[DONE]"):
                    break
                if name != "ping":
                    data = without_probabilities(data)
                    count.add(data)
                    event = self._event(name, data, response)
                    drop_unread(event)
                    count.add_kept(event)
                    yield event

    def abort(self) -> None:
        """Ends the connection, or the next one of this attempt. A thread that waits for it gets an error."""
        self._is_aborted = True
        if (connection := self._connection) is not None:
            connection.abort()

    def _options(self) -> dict[str, Any]:
        from httpx2 import Timeout

        limits, seconds = self._deadline.limits, max(0.001, self._deadline.remaining())
        read = min(limits.read, seconds)
        return {"timeout": Timeout(read, connect=min(limits.connect, seconds)), "max_retries": 0}

    @contextmanager
    def _sent(self, path: str, body: Mapping[str, Any]) -> Iterator["httpx2.Response"]:
        """Sends the request. The response is not read yet, and is closed at the end."""
        stream_class = self._sdk.module.Stream[object]
        with PACE.thread() as self._rest, self._failures():
            try:
                with limited_by(self):
                    stream = self._sdk.client.post(
                        path, cast_to=object, body=body, options=self._options(), stream=True,
                        stream_cls=stream_class,
                    )  # fmt: skip
                with closing(stream.response) as response:
                    self._expect_uncompressed(response)
                    yield response
            finally:
                self._connection = None

    def _parts(self, response: "httpx2.Response") -> Iterator[bytes]:
        parts = response.iter_bytes()
        while True:
            with limited_by(self):
                part = next(parts, None)
            if part is None:
                return
            if self._deadline.remaining() <= 0:
                raise self._too_late()
            yield part
            self._rest()

    def _event(self, name: str, data: str, response: "httpx2.Response") -> Event:
        try:
            event = parse_lenient(data)
        except ValueError:
            if name != "error":
                raise
            event = data
        if name == "error" or (isinstance(event, dict) and event.get("error")):
            raise error_from(event, provider=self._provider, headers=response.headers, secret=self._sdk.key)
        return self._checked(event)

    def _checked(self, event: Any) -> Event:
        if not isinstance(event, dict):
            raise self._response_broken("sent something that is not a JSON object", retryable=True)
        if depth_exceeds(event, MAX_RECORD_DEPTH):
            raise self._response_broken("sent JSON that is nested too deeply")
        return event

    def _expect_uncompressed(self, response: "httpx2.Response") -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise self._response_broken(
                f"sent a compressed response ({self._quoted(encoding)}), which Playhead does not read. "
                f"Turn compression off in the server or proxy of {self._variable()}"
            )

    def _expect_events(self, response: "httpx2.Response") -> None:
        media_type = response.headers.get("content-type", "")
        if "text/event-stream" in media_type.lower():
            return
        first_bytes = next(self._parts(response), b"")[:2048]
        message = without_keys(first_bytes.decode("utf-8", "replace"), self._sdk.key)
        sent = self._quoted(media_type) if media_type else "a response without a content type"
        raise self._response_broken(f"sent {sent} instead of an event stream", message)

    def _quoted(self, header: str) -> str:
        """The beginning of a header of the response, which may repeat the key."""
        return repr(without_keys(header, self._sdk.key)[:100])

    def _response_broken(self, fault: str, message: str = "", *, retryable: bool = False) -> ResponseBroken:
        return ResponseBroken(
            f"{self._provider} {fault}.",
            provider=self._provider,
            provider_message=message,
            retryable=retryable,
        )

    def _variable(self) -> str:
        return f"{self._provider.upper()}_BASE_URL"

    def _redirected(self, status: int) -> RequestRefused:
        provider = self._provider
        return RequestRefused(
            f"{provider} redirects the request ({status}), and Playhead follows no redirects. "
            f"Set {self._variable()} to the final address.",
            provider=provider,
            status=status,
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
        except TooMuch as error:
            raise self.too_much(error) from None
        except EventTooLong:
            raise self.too_much(TooMuch(f"{MAX_EVENT} bytes in one event")) from None
        except (ValueError, RecursionError):
            raise self._response_broken("sent something that is not JSON", retryable=True) from None
        except Exception as error:
            if isinstance(error.__cause__, ModelCallError):
                raise error.__cause__ from None
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
            case sdk.APIStatusError() if 300 <= error.status_code < 400:
                return self._redirected(error.status_code)
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
