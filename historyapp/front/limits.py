"""Limits for one client: what it may use at once, and for how long."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from historyapp.wire.problems import TooManyRequests

PER_ADDRESS = 4
"""An address may use this many times as much as a key: a proxy sends the requests of many keys."""
CALLS_PER_ADDRESS = 3
"""The same factor for model calls. It is smaller, so that one address cannot use all of their threads."""
RETRY_SECONDS = 1
MAX_KEYS = 10_000
"""The maximum number of clients whose project is cached."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes are in bytes. docs/settings.md lists the variables."""

    max_body: int
    body_seconds: float
    """The longest time to receive a body, in seconds."""
    stall_seconds: float
    """The longest time without progress, in receiving a body or sending a response, in seconds."""
    min_rate: int
    """The lowest rate of a body in bytes a second, after the first ``stall_seconds``."""
    queue_seconds: float
    """The longest wait for a thread, in seconds."""
    client_requests: int
    client_calls: int
    """Concurrent model calls, exports and imports of one client."""
    client_bytes: int
    """Bytes of the bodies of one client's open requests."""
    client_streams: int
    """Open streams of events of one client."""
    client_connections: int
    """Open connections of one address."""
    min_free_disk: int
    """Free disk space that temporary files of bodies and responses must leave."""
    client_unread: int
    """Unread responses of one client in temporary files."""
    all_unread: int
    """Unread responses of all clients in temporary files."""


class Clients:
    """Counts what each key and each address uses. Only the event loop calls it, so it needs no lock."""

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
            client: the result of :func:`client_of`.
            size: the length of the body.

        Raises:
            TooManyRequests: if the client has reached one of its limits.
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
            TooManyRequests: if the client has too many streams open.
        """
        clients = [(address.encode(), PER_ADDRESS), (client, 1)]
        for one, factor in clients:
            limit = factor * self._limits.client_streams
            if self._streams.get(one, 0) >= limit:
                raise TooManyRequests(
                    f"A client can keep at most {limit:,} event streams open "
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
        subject = "This address" if factor > 1 else "This API key, or this address if it sends no key,"
        if self._requests.get(client, 0) >= factor * limits.client_requests:
            limit, limit_name = factor * limits.client_requests, "requests at once (PLAYHEAD_CLIENT_REQUESTS)"
        elif is_long and self._calls.get(client, 0) >= min(factor, CALLS_PER_ADDRESS) * limits.client_calls:
            limit = min(factor, CALLS_PER_ADDRESS) * limits.client_calls
            limit_name = "model calls, exports and imports at once (PLAYHEAD_CLIENT_CALLS)"
        elif size and (used := self._bytes.get(client, 0)) > 0 and used + size > factor * limits.client_bytes:
            limit, limit_name = (
                factor * limits.client_bytes,
                "bytes of bodies at once (PLAYHEAD_CLIENT_BYTES)",
            )
        else:
            return
        raise TooManyRequests(
            f"{subject} has reached the limit of {limit:,} {limit_name}. "
            "Wait until some of these requests have ended, then retry.",
            retry_after=RETRY_SECONDS,
        )


class Projects:
    """A cache of the projects of clients' keys, filled by the requests of these keys."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def of(self, client: bytes) -> bytes:
        """The project of the client's key. The client's id if it has no key or the project is not cached."""
        return self._known.get(client, client)

    def learn(self, client: bytes, project: UUID | None) -> None:
        """Caches the project of a request's key, if it had a key. May be called in any thread."""
        if project is not None and client not in self._known:
            if len(self._known) >= MAX_KEYS:
                self._known.clear()
            self._known[client] = project.bytes


def client_of(path: str, authorization: bytes, address: str) -> bytes:
    """The client that sends a request: an API key or, without one, an IP address.

    Pages ignore keys. Otherwise one signed-in person could invent keys and count as many clients.
    """
    if not path.startswith("/api/"):
        authorization = b""
    # Parsed as the API does, so that other spaces or ``bearer`` in lower case give the same client.
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else ""
    # Only a hash of the key stays in memory.
    return blake2b(key.encode(), digest_size=16).digest() if key else b"without a key: " + address.encode()
