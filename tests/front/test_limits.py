"""Who a client is, and what it may use at once."""

from contextlib import ExitStack

import pytest

from historyapp.asgi import make_front
from historyapp.front.application import CALL_THREADS
from historyapp.front.limits import client_of
from historyapp.wire.problems import TooManyRequests


@pytest.mark.parametrize("header", [b"bearer k", b"BEARER k", b"Bearer   k ", b"Bearer \xa0k\x85"])
def test_a_key_is_one_client_however_its_header_is_written(header: bytes) -> None:
    assert client_of(header, "10.0.0.1") == client_of(b"Bearer k", "10.0.0.2")


@pytest.mark.parametrize("header", [b"", b"Bearer ", b"Basic k", b"k"])
def test_without_a_key_the_address_is_the_client(header: bytes) -> None:
    assert client_of(header, "10.0.0.1") == client_of(b"", "10.0.0.1") != client_of(b"", "10.0.0.2")


def test_neither_a_key_nor_an_address_can_hold_all_threads_for_model_calls() -> None:
    """With the limits that a server has unless its owner changes them."""
    clients = make_front(1).clients

    def call_until_refused(requests: ExitStack, key: bytes, address: str) -> int:
        for made in range(CALL_THREADS):
            try:
                requests.enter_context(clients.admitted(key, address, size=0, is_long=True))
            except TooManyRequests:
                return made
        return CALL_THREADS

    with ExitStack() as requests:
        of_key = call_until_refused(requests, b"key", "10.0.0.1")
        assert 0 < of_key <= CALL_THREADS // 4
        of_address = of_key + sum(call_until_refused(requests, b"%d" % n, "10.0.0.1") for n in range(9))
        assert of_address == 3 * of_key < CALL_THREADS
        assert call_until_refused(requests, b"key of somebody else", "10.0.0.2") == of_key
