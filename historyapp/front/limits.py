"""What one client may use of the server at once, and how long it may take."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from historyapp.wire.problems import TooManyRequests

PER_ADDRESS = 4
"""An address may use this many times what a key may use: a proxy brings the requests of many keys."""
CALLS_PER_ADDRESS = 3
"""As above, of model calls: fewer than there are threads for them, so that others find one."""
RETRY_SECONDS = 1
MOST_KEYS = 10_000
"""Whose projects are remembered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes. docs/settings.md lists the variables."""

    max_body: int
    body_seconds: float
    """The longest time for a whole body."""
    stall_seconds: float
    """The longest time without progress, both for a body that is sent and for a response that is read."""
    min_rate: int
    """Bytes a second that a body must bring once ``stall_seconds`` have passed."""
    queue_seconds: float
    """The longest wait for a thread."""
    client_requests: int
    client_calls: int
    """Model calls, exports and imports at once."""
    client_bytes: int
    """Bodies of all requests that have not ended."""
    client_streams: int
    """Open streams of events."""
    client_connections: int
    """Open connections of one address."""
    min_free_disk: int
    """Bytes that bodies and responses in temporary files leave free on the disk."""
    client_unread: int
    """Responses of one client that wait in temporary files."""
    all_unread: int
    """As above, of all clients together."""


class Clients:
    """Counts what each key and each address uses now. Only the event loop calls it, so it needs no lock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: dict[bytes, int] = {}
        self._calls: dict[bytes, int] = {}
        self._bytes: dict[bytes, int] = {}
        self._streams: dict[bytes, int] = {}

    @contextmanager
    def admitted(self, client: bytes, address: str, *, size: int, is_long: bool) -> Iterator[None]:
        """Counts a request while the block runs.

        Args:
            client: as of :func:`client_of`.
            size: the length of the body.

        Raises:
            TooManyRequests: when the client is at one of its limits.
        """
        clients = [(address.encode(), PER_ADDRESS), (client, 1)]
        for one, factor in clients:
            self._check(one, factor, size, is_long)
        used = [(self._requests, 1), (self._calls, int(is_long)), (self._bytes, size)]
        for client, _ in clients:
            for counter, amount in used:
                if amount:
                    counter[client] = counter.get(client, 0) + amount
        try:
            yield
        finally:
            for client, _ in clients:
                for counter, amount in used:
                    if amount:
                        counter[client] -= amount
                        if not counter[client]:
                            del counter[client]

    @contextmanager
    def streaming(self, client: bytes, address: str) -> Iterator[None]:
        """Counts a stream of events while the block runs.

        Raises:
            TooManyRequests: when the client has too many.
        """
        clients = [(address.encode(), PER_ADDRESS), (client, 1)]
        for one, factor in clients:
            most = factor * self._limits.client_streams
            if self._streams.get(one, 0) >= most:
                raise TooManyRequests(
                    f"The server keeps {most:,} streams of events of one client open "
                    "(PLAYHEAD_CLIENT_STREAMS). Close some of them, then retry.",
                    retry_after=RETRY_SECONDS,
                )
        for one, _ in clients:
            self._streams[one] = self._streams.get(one, 0) + 1
        try:
            yield
        finally:
            for one, _ in clients:
                self._streams[one] -= 1
                if not self._streams[one]:
                    del self._streams[one]

    def _check(self, client: bytes, factor: int, size: int, is_long: bool) -> None:
        limits = self._limits
        whose = "this address" if factor > 1 else "this key, or this address without one,"
        if self._requests.get(client, 0) >= factor * limits.client_requests:
            most, what = factor * limits.client_requests, "requests at once (PLAYHEAD_CLIENT_REQUESTS)"
        elif is_long and self._calls.get(client, 0) >= min(factor, CALLS_PER_ADDRESS) * limits.client_calls:
            most = min(factor, CALLS_PER_ADDRESS) * limits.client_calls
            what = "model calls, exports and imports at once (PLAYHEAD_CLIENT_CALLS)"
        elif size and (used := self._bytes.get(client, 0)) > 0 and used + size > factor * limits.client_bytes:
            most, what = factor * limits.client_bytes, "bytes of bodies at once (PLAYHEAD_CLIENT_BYTES)"
        else:
            return
        raise TooManyRequests(
            f"The server accepts {most:,} {what} of one client; {whose} is at that limit. "
            "Wait until some of these requests have ended, then retry.",
            retry_after=RETRY_SECONDS,
        )


class Projects:
    """Which project the key of a client belongs to, as far as requests have shown it."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def of(self, client: bytes) -> bytes:
        """The project of the client's key; the client itself while it is unknown, or without a key."""
        return self._known.get(client, client)

    def learn(self, client: bytes, project: UUID | None) -> None:
        """Notes the project whose key a request had, if it had one. May be called in any thread."""
        if project is not None and client not in self._known:
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            self._known[client] = project.bytes


def client_of(path: str, authorization: bytes, address: str) -> bytes:
    """Who sends a request: the holder of a key, or without one everybody at the address.

    Only the API knows keys: with invented ones, somebody who is signed in would be many clients of pages.
    """
    if not path.startswith("/api/"):
        authorization = b""
    # As the API reads the header: one key must not become several clients by space or by ``bearer``.
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else ""
    # Neither the key nor anything that it can be recovered from stays in memory.
    return blake2b(key.encode(), digest_size=16).digest() if key else b"without a key: " + address.encode()
