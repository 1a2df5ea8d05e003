"""Limits for each client: how much it may use at the same time, and for how long."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from django.conf import settings

from historyapp.front.pool_names import CHECKS
from historyapp.front.pools import Client
from historyapp.services.devices import cookie_value
from historyapp.wire.problems import TooManyRequests

PER_ADDRESS = 4
"""An address may use this many times as much as a key, because a proxy sends the requests of many keys."""
CALLS_PER_ADDRESS = 3
"""The same for model calls, exports and imports. Smaller, so that an address cannot use all their threads."""
RETRY_SECONDS = 1
MAX_CREDENTIALS = 10_000
"""The maximum number of known credentials in memory."""


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
    """Bytes in the bodies of one client's open requests."""
    client_streams: int
    """Open streams of events of one client."""
    client_connections: int
    """Open connections of one address."""
    min_free_disk: int
    """Bytes of the disk that temporary files of bodies and responses must leave free."""
    client_unread: int
    """Bytes of one client's unread responses in temporary files."""
    all_unread: int
    """Bytes of all clients' unread responses in temporary files."""


@dataclass(slots=True)
class ClientUse:
    """What a key or an address uses now."""

    requests: int = 0
    calls: int = 0
    """Model calls, exports and imports. They count as requests too."""
    bytes: int = 0
    """Bytes in the bodies of its requests."""
    streams: int = 0


class Clients:
    """Counts what each key and each address uses. Only the event loop calls it, so it needs no lock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._used: dict[bytes, ClientUse] = {}
        """By group, and by the result of :func:`client_of`. Without those that use nothing."""

    @contextmanager
    def admitted(self, client: bytes, group: str, *, size: int = 0, is_long: bool = False) -> Iterator[None]:
        """Counts a request while the block runs.

        Args:
            client: who sends it: a known client, or the result of :func:`client_of`.
            group: the clients that share its limit: the result of :func:`known_at` or :func:`strangers_at`.
            size: the length of the body.

        Raises:
            TooManyRequests: if the client has reached one of its limits.
        """
        of_group, of_client = uses = self._uses(client, group)
        self._check(of_group, PER_ADDRESS, size, is_long)
        self._check(of_client, 1, size, is_long)
        self._keep(client, group, uses)
        for use in uses:
            use.requests += 1
            use.calls += is_long
            use.bytes += size
        try:
            yield
        finally:
            for use in uses:
                use.requests -= 1
                use.calls -= is_long
                use.bytes -= size
            self._drop_unused(client, group)

    @contextmanager
    def streaming(self, client: bytes, group: str) -> Iterator[None]:
        """Counts a stream of events while the block runs.

        Raises:
            TooManyRequests: if the client has too many streams open.
        """
        uses = self._uses(client, group)
        for use, factor in zip(uses, (PER_ADDRESS, 1), strict=True):
            limit = factor * self._limits.client_streams
            if use.streams >= limit:
                raise TooManyRequests(
                    f"A client can keep at most {limit:,} event streams open "
                    "(PLAYHEAD_CLIENT_STREAMS). Close some of them, then retry.",
                    retry_after=RETRY_SECONDS,
                )
        self._keep(client, group, uses)
        for use in uses:
            use.streams += 1
        try:
            yield
        finally:
            for use in uses:
                use.streams -= 1
            self._drop_unused(client, group)

    def _uses(self, client: bytes, group: str) -> tuple[ClientUse, ClientUse]:
        """What the group uses, and what the client uses."""
        return self._used.get(group.encode()) or ClientUse(), self._used.get(client) or ClientUse()

    def _keep(self, client: bytes, group: str, uses: tuple[ClientUse, ClientUse]) -> None:
        self._used[group.encode()], self._used[client] = uses

    def _drop_unused(self, client: bytes, group: str) -> None:
        for holder in (group.encode(), client):
            use = self._used[holder]
            if not use.requests and not use.streams:
                del self._used[holder]

    def _check(self, use: ClientUse, factor: int, size: int, is_long: bool) -> None:
        limits = self._limits
        if use.requests >= factor * limits.client_requests:
            limit, limit_name = factor * limits.client_requests, "requests at once (PLAYHEAD_CLIENT_REQUESTS)"
        elif is_long and use.calls >= min(factor, CALLS_PER_ADDRESS) * limits.client_calls:
            limit = min(factor, CALLS_PER_ADDRESS) * limits.client_calls
            limit_name = "model calls, exports and imports at once (PLAYHEAD_CLIENT_CALLS)"
        elif size and use.bytes and use.bytes + size > factor * limits.client_bytes:
            limit, limit_name = (
                factor * limits.client_bytes,
                "bytes of bodies at once (PLAYHEAD_CLIENT_BYTES)",
            )
        else:
            return
        subject = "This address" if factor > 1 else "This client (an API key, a share link or an address)"
        raise TooManyRequests(
            f"{subject} has reached the limit of {limit:,} {limit_name}. "
            "Wait until some of these requests have ended, then retry.",
            retry_after=RETRY_SECONDS,
        )


class KnownClients:
    """Who holds the thread of a request: the owner of its credential, once the credential has been found.

    A credential is a key, a share link or, for pages, a browser session. Requests with other ones count for
    their address when threads are given in turn. Otherwise somebody could invent a credential for each
    request and get a turn with each.
    """

    def __init__(self) -> None:
        self._owners: dict[bytes, bytes] = {}

    def __contains__(self, credential: bytes) -> bool:
        return credential in self._owners

    def holder(self, credential: bytes, address: str) -> Client:
        """The holder of a request's thread. ``credential``: the result of :func:`credential_of`."""
        owner = self._owners.get(credential)
        if owner is None:
            return Client(address.encode(), address.encode())
        return Client(credential, owner)

    def add(self, credential: bytes, owner: bytes) -> Client:
        """Adds a credential that has just been found, and returns its holder. May be called in any thread.

        Args:
            owner: the project of a key or share link, or the person of a session.
        """
        if credential not in self._owners:
            if len(self._owners) >= MAX_CREDENTIALS:
                self._owners.clear()
            self._owners[credential] = owner
        return Client(credential, owner)

    def remove(self, credential: bytes) -> None:
        """Removes a credential that is no longer valid. May be called in any thread."""
        self._owners.pop(credential, None)


def known_at(address: str) -> str:
    """The known clients at an address. Strangers at the same address, such as a proxy's, have limits of their
    own, so that they cannot use up those of people who are signed in and of valid keys.
    """
    return f"known clients at {address}"


def strangers_at(address: str, pool: str) -> str:
    """The strangers at an address whose requests one pool serves. Health checks are not refused because of
    others."""
    return f"{'health checks' if pool == CHECKS else 'strangers'} at {address}"


def bearer_token(authorization: bytes) -> str:
    """The API key in a header ``Authorization``, or an empty string. Parsed as the API does, so that other
    spaces or ``bearer`` in lower case give the same key.
    """
    scheme, _, token = authorization.decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def client_of(path: str, authorization: bytes, strangers: str) -> bytes:
    """The client that sends a request: an API key, a share link or, without these, an address's strangers.

    All readers of a share link are one client. Otherwise readers at many addresses could use all threads.
    Pages ignore keys. Otherwise a signed-in person could invent keys and count as many clients.
    A browser session is a client only when it has been found, see :class:`KnownClients`.

    Args:
        strangers: the result of :func:`strangers_at`.
    """
    if path.startswith("/s/"):
        return blake2b(path.split("/")[2].encode(), digest_size=16, person=b"share link").digest()
    if not path.startswith("/api/"):
        authorization = b""
    key = bearer_token(authorization)
    # Only a hash of the key stays in memory.
    return blake2b(key.encode(), digest_size=16).digest() if key else b"without a key: " + strangers.encode()


def credential_of(client: bytes, path: str, cookies: bytes) -> bytes:
    """The credential of a request. For a page it is the browser session, otherwise the client.

    Args:
        client: the result of :func:`client_of`.
        cookies: the header ``Cookie``.
    """
    if not cookies or path.startswith(("/api/", "/s/")):
        return client
    session = cookie_value(cookies, settings.SESSION_COOKIE_NAME)
    return blake2b(session.encode(), digest_size=16, person=b"session").digest() if session else client
