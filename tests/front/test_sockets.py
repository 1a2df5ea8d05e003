"""Which connections of an address are closed when they are too many."""

import socket
import sys
import time
from collections.abc import Iterator

import pytest

from historyapp.front.sockets import surplus


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection: the client's and the server's."""
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows how long a connection has been silent")
def test_the_longest_silent_connection_is_closed_first(listener: socket.socket) -> None:
    ports = {listener.getsockname()[1]}
    (first, accepted), (second, also_accepted) = connected(listener), connected(listener)
    time.sleep(0.05)
    first.sendall(b"GET ")
    accepted.recv(4)
    assert surplus(ports, 1, set()) == [second.getsockname()]
    assert surplus(ports, 1, {second.getsockname()}) == [first.getsockname()]
    assert surplus(ports, 2, set()) == []
    for one in (first, accepted, second, also_accepted):
        one.close()
