"""Checks the addresses of webhooks. Public addresses are allowed over HTTPS, and private ones if the operator
allows them."""

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from uuid import UUID

from django.conf import settings

from historyapp.core.errors import AddressNotAllowed, Invalid
from historyapp.core.slots import NoSlot, Slots

RESOLVE_SECONDS = 5.0
"""The time limit for looking up a name. ``getaddrinfo`` has none."""
MAX_ADDRESSES = 3
"""The maximum number of a host's addresses that are tried."""
_HOLD_IPV4 = [ip_network(text) for text in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")]
"""Networks of IPv6 addresses that end with an IPv4 address: NAT64, translated and compatible addresses."""
_NOT_PUBLIC = [ip_network(text) for text in ("192.88.99.0/24", "fec0::/10", "5f00::/16", "3fff::/20")]
"""Networks that Python calls global: relays of 6to4, site-local addresses, segment routing, documentation."""
_PORTS = {"http": 80, "https": 443}
_SAFE = "%/:@!$&'()*+,;=?~[]"
_LOOK_UPS, _OF_PROJECT = 32, 6
"""Look-ups that run at the same time, and those of one project. One that nobody waits for goes on until the
system's resolver gives up, often after 20 seconds or more."""
_resolvers = ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="webhook names")
_slots = Slots(_LOOK_UPS, of_owner=_OF_PROJECT, waiting=_LOOK_UPS)


class TargetRefused(Exception):
    """The address of a webhook is not allowed. The message says why."""


class WebhookTarget(NamedTuple):
    """The parts of a URL that a request needs."""

    scheme: str
    host: str
    """In ASCII; an IPv6 address without brackets."""
    port: int
    path: str
    """With the query, in ASCII."""

    @property
    def authority(self) -> str:
        """The header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(text: str) -> WebhookTarget:
    """Parses a URL and checks it without looking up its host.

    Raises:
        Invalid: when it is not an HTTP URL, or uses HTTP without TLS where this is not allowed.
    """
    try:
        url = urlsplit(text)
        host = url.hostname or ""
        host = host if ":" in host else host.encode("idna").decode()
        port = url.port or _PORTS.get(url.scheme, 0)
    except ValueError:
        raise Invalid("The URL cannot be read. Use https://host/path.") from None
    if not text.isprintable() or " " in text or "\\" in text:
        raise Invalid("The URL contains a space or a character that must be percent-encoded.")
    if url.scheme not in _PORTS or not host or not port:
        raise Invalid("The URL must begin with https:// and name a host.")
    if "@" in url.netloc:
        raise Invalid("The URL contains a user name or a password. Verify the signature instead.")
    if url.fragment:
        raise Invalid("The URL has a part after #, which is never sent. Leave it out.")
    if url.scheme == "http" and not settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES:
        raise Invalid(
            "The URL must begin with https://. Without TLS, anyone on the network path can read the events. "
            "PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES can allow http:// to private addresses."
        )
    path = quote(url.path or "/", safe=_SAFE) + (f"?{quote(url.query, safe=_SAFE)}" if url.query else "")
    return WebhookTarget(url.scheme, host, port, path)


def check_literal_address(target: WebhookTarget) -> None:
    """Refuses a URL whose host is an address that is not allowed. Names are looked up at each attempt.

    Raises:
        AddressNotAllowed: when the address is not allowed.
    """
    is_this_machine = target.host == "localhost" or target.host.endswith(".localhost")
    try:
        address = "127.0.0.1" if is_this_machine else str(ip_address(target.host))
        check_address(target, address)
    except ValueError:
        return
    except TargetRefused as error:
        raise AddressNotAllowed(str(error), host=target.host) from None


def addresses_of(target: WebhookTarget, project: UUID | None = None) -> Sequence[str]:
    """Looks up the host and checks each of its addresses. Callers may connect only to these.

    Args:
        project: the project of the webhook. Its look-ups have a limit of their own.

    Raises:
        TargetRefused: when an address is not allowed, or the host has no address.
    """
    try:
        addresses = [str(ip_address(target.host))]
    except ValueError:
        addresses = _look_up(target, project)
    for address in addresses:
        check_address(target, address)
    return addresses[:MAX_ADDRESSES]


def _look_up(target: WebhookTarget, project: UUID | None) -> list[str]:
    end = time.monotonic() + RESOLVE_SECONDS
    try:
        _slots.take(project, RESOLVE_SECONDS)
        resolved = _resolvers.submit(_resolve, target, project).result(end - time.monotonic())
    except (NoSlot, TimeoutError):
        raise TargetRefused(f"The name {target.host} could not be looked up in time.") from None
    except (OSError, UnicodeError):
        raise TargetRefused(f"There is no host {target.host}. Check the URL.") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in resolved))


def _resolve(target: WebhookTarget, project: UUID | None) -> list[tuple[Any, ...]]:
    kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
    try:
        return [*socket.getaddrinfo(target.host, target.port, type=kind, proto=protocol)]
    finally:
        _slots.give_back(project)


def check_address(target: WebhookTarget, address: str) -> None:
    """Raises ``TargetRefused`` if a request to the target may not connect to an address."""
    parsed = _embedded(ip_address(address.partition("%")[0]))
    is_global = parsed.is_global and not any(parsed in network for network in _NOT_PUBLIC)
    is_private = not is_global and not parsed.is_multicast
    if is_private and any(parsed in network for network in settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES):
        return
    if not is_global or parsed.is_multicast:
        raise TargetRefused(
            f"The host {target.host} has the address {parsed}, which is not public. "
            "PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES can allow it."
        )
    if target.scheme != "https":
        raise TargetRefused("Public addresses need https://.")


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address embedded in an IPv6 address; otherwise the address itself."""
    if isinstance(address, IPv4Address) or address.is_loopback:  # ::1 is also in ::/96
        return address
    if any(address in network for network in _HOLD_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
