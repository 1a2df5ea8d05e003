"""The HTTP client of the SDKs: what a provider's server can make this server read, and for how long.

An SDK reads the whole body of an error, and httpx checks its time limit only between two reads, so a server
could send for ever. Here each read and write ends at the deadline of its model call, and counts towards the
size of its response. Redirects are not followed: they would send the request to another server.
"""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 64 * 1024
"""The maximum size of an error and of a count of tokens, in bytes. Longer errors are cut off."""
_READ, _WRITE = 16 * 1024, 64 * 1024
"""Bytes that are read and written at once: a thread can rest between two reads, and a slow reader cannot
extend the deadline.
"""


class ProviderExchange(Protocol):
    """A request and its response."""

    def remaining(self) -> float:
        """Seconds until the deadline."""
        ...

    def begin_read(self) -> None:
        """Called before each read. HTTP's own parts take time too: tiny chunks, informational responses."""
        ...

    def use_connection(self, connection: "LimitedStream") -> None:
        """Called when a connection was opened, and before each read and write."""
        ...

    def count(self, received: int) -> None:
        """Counts bytes from the network. Raises an error if they are too many."""
        ...


_current: ContextVar[ProviderExchange] = ContextVar("exchange")


@contextmanager
def limited_by(exchange: ProviderExchange) -> Iterator[None]:
    """Applies an exchange's limits to what this thread reads and writes."""
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


def http_client(sdk: ModuleType) -> Any:
    """The SDK's own HTTP client, with these limits."""
    client = sdk.DefaultHttpxClient(
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_cut_off_error]},
    )
    # httpx has no parameter for the network backend of its connection pools.
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            transport._pool._network_backend = _LimitedNetwork(transport._pool._network_backend)
    return client


def _cut_off_error(response: "httpx2.Response") -> None:
    """Cuts off the body of an error, which the SDK reads completely."""
    from httpx2 import ByteStream

    if response.is_success:
        return
    response.encoding = "utf-8"  # a charset may name a compression
    body, stream = bytearray(), cast(Any, response.stream)
    with closing(stream):
        if response.headers.pop("content-encoding", "identity").lower() == "identity":
            for part in stream:
                body += part
                if len(body) > MAX_BODY:
                    break
    response.stream = ByteStream(bytes(body[:MAX_BODY]))


class _LimitedNetwork:
    """A network backend of httpcore whose connections have the limits of their exchange."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, *args: Any, **options: Any) -> "LimitedStream":
        return _opened(self._backend.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: Any, **options: Any) -> "LimitedStream":
        return _opened(self._backend.connect_unix_socket(*args, **options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


def _opened(stream: Any) -> "LimitedStream":
    connection = LimitedStream(stream)
    _current.get().use_connection(connection)
    return connection


class LimitedStream:
    """A connection. It may serve several exchanges, one after another."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        exchange = _current.get()
        exchange.use_connection(self)
        exchange.begin_read()
        data: bytes = self._stream.read(min(max_bytes, _READ), timeout=_until_deadline(timeout))
        exchange.count(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        _current.get().use_connection(self)
        for start in range(0, len(buffer), _WRITE):
            self._stream.write(buffer[start : start + _WRITE], timeout=_until_deadline(timeout))

    def start_tls(self, *args: Any, **options: Any) -> "LimitedStream":
        return LimitedStream(self._stream.start_tls(*args, **options))

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        """Ends reads and writes of all threads with an error."""
        with suppress(OSError):  # closed already
            socket.socket.shutdown(self.get_extra_info("socket"), socket.SHUT_RDWR)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _until_deadline(timeout: float | None) -> float:
    remaining = max(0.001, _current.get().remaining())
    return remaining if timeout is None else min(timeout, remaining)
