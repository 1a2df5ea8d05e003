"""Maps an IP address to a client."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

IPV6_PREFIX = 64
"""The prefix length of an IPv6 network. A client can use all addresses of its network."""


@lru_cache(4096)
def network_of(address: str) -> str:
    """The network of an IPv6 address; an IPv4 address and any other text unchanged."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ip_network((int(parsed), IPV6_PREFIX), strict=False))
