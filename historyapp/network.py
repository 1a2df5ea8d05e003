"""Which addresses count as one client."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

IPV6_PREFIX = 64
"""Bits of an IPv6 address that name a network. Whoever has one such network has all addresses in it."""


@lru_cache(4096)
def network_of(address: str) -> str:
    """An IPv4 address as it is, an IPv6 address as its network; any other text as it is."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ip_network((int(parsed), IPV6_PREFIX), strict=False))
