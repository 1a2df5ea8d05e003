"""Which addresses count as one client."""

import pytest

from historyapp.network import network_of


def test_an_ipv4_address_counts_alone_also_inside_ipv6() -> None:
    assert network_of("10.0.0.1") == network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("10.0.0.1") != network_of("10.0.0.2")


def test_all_ipv6_addresses_of_a_network_count_as_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:ffff:ffff:ffff")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")


@pytest.mark.parametrize("text", ["", "unix", "1.2.3.4.5", "fe80::1%eth0%"])
def test_a_text_that_is_not_an_address_counts_as_itself(text: str) -> None:
    assert network_of(text) == text
