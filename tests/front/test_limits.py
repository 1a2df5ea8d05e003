"""Who a client is, and what it may use at once."""

import pytest

from historyapp.front.limits import client_of


@pytest.mark.parametrize("header", [b"bearer k", b"BEARER k", b"Bearer   k ", b"Bearer \xa0k\x85"])
def test_a_key_is_one_client_however_its_header_is_written(header: bytes) -> None:
    assert client_of(header, "10.0.0.1") == client_of(b"Bearer k", "10.0.0.2")


@pytest.mark.parametrize("header", [b"", b"Bearer ", b"Basic k", b"k"])
def test_without_a_key_the_address_is_the_client(header: bytes) -> None:
    assert client_of(header, "10.0.0.1") == client_of(b"", "10.0.0.1") != client_of(b"", "10.0.0.2")
