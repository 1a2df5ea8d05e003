"""A time limit on a whole blocking request.

httpx limits each read and each write separately, so a server that sends one byte a second could block its
caller without end. Here each network operation gets only the remaining time of its request.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

_end: ContextVar[float | None] = ContextVar("playhead_request_end", default=None)
_PIECE = 65_536
"""Bytes written between two checks of the time limit."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Limits the total time of the requests that this thread sends with a client of :func:`bound`."""
    token = _end.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def bound(client: httpx.Client) -> None:
    """Makes the client obey :func:`limit`. Transports that are not httpx's own are left unchanged."""
    for transport in [client._transport, *client._mounts.values()]:
        pool = getattr(transport, "_pool", None)
        # httpx has no public way to pass a network backend to its transport; httpcore has.
        if isinstance(pool, httpcore.ConnectionPool) and not isinstance(pool._network_backend, _Backend):
            pool._network_backend = _Backend(pool._network_backend)


def _remaining(timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    end = _end.get()
    if end is None:
        return timeout
    remaining = end - time.monotonic()
    if remaining <= 0:
        raise error("the time limit of the whole request has passed")
    return remaining if timeout is None else min(timeout, remaining)


@dataclass(eq=False)
class _Backend(httpcore.NetworkBackend):
    inner: httpcore.NetworkBackend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last_error: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in _addresses(host, port, _remaining(timeout, httpcore.ConnectTimeout)):
            seconds = _remaining(timeout, httpcore.ConnectTimeout)
            try:
                return _Stream(self.inner.connect_tcp(address, port, seconds, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last_error = error
        raise last_error

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        seconds = _remaining(timeout, httpcore.ConnectTimeout)
        return _Stream(self.inner.connect_unix_socket(path, seconds, socket_options))


@dataclass(eq=False)
class _Stream(httpcore.NetworkStream):
    inner: httpcore.NetworkStream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, _remaining(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE):
            self.inner.write(buffer[start : start + _PIECE], _remaining(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = _remaining(timeout, httpcore.ConnectTimeout)
        return _Stream(self.inner.start_tls(ssl_context, server_hostname, seconds))

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


def _addresses(host: str, port: int, seconds: float | None) -> list[str]:
    """The host's IP addresses. A look-up has no time limit of its own, so it runs in another thread."""
    addresses: list[Any] = []

    def look_up() -> None:
        try:
            addresses.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            addresses.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(seconds)
    if not addresses:
        raise httpcore.ConnectTimeout(f"the address of {host} was not found in time")
    if isinstance(addresses[0], Exception):
        raise httpcore.ConnectError(str(addresses[0])) from addresses[0]
    return list(dict.fromkeys(str(info[4][0]) for info in addresses[0]))
