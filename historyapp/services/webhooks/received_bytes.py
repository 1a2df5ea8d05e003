"""A limit on everything that an attempt receives: interim responses, heads, and the framing of a body.

h11, which reads them for httpx, limits only a head. Without a limit, an endless series of interim responses
holds the interpreter until the attempt ends.
"""

import ssl
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

MIN_READ = 128
"""Bytes that each read counts for at least. A target may send its response byte by byte."""


def limit_received(transport: httpx.AsyncHTTPTransport, max_bytes: int) -> None:
    """Makes requests of this transport fail with ``httpx.ReadError`` after ``max_bytes`` in total."""
    pool: Any = transport._pool
    # httpx has no public way to pass a network backend to its transport; httpcore has.
    pool._network_backend = _CountingNetwork(pool._network_backend, _ReceivedBytes(max_bytes))


@dataclass(eq=False)
class _ReceivedBytes:
    """Counts what the connections of a transport receive."""

    max_bytes: int
    count: int = 0

    def add(self, received: int) -> None:
        self.count += max(received, MIN_READ)
        if self.count > self.max_bytes:
            raise httpcore.ReadError(f"the target sent more than {self.max_bytes // 1024} KB")


@dataclass(eq=False)
class _CountingNetwork(httpcore.AsyncNetworkBackend):
    inner: httpcore.AsyncNetworkBackend
    received: _ReceivedBytes

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _CountedStream(await self.inner.connect_tcp(*args, **options), self.received)

    async def sleep(self, seconds: float) -> None:
        await self.inner.sleep(seconds)


@dataclass(eq=False)
class _CountedStream(httpcore.AsyncNetworkStream):
    inner: httpcore.AsyncNetworkStream
    received: _ReceivedBytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self.inner.read(max_bytes, timeout)
        self.received.add(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self.inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _CountedStream(
            await self.inner.start_tls(ssl_context, server_hostname, timeout), self.received
        )

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)
