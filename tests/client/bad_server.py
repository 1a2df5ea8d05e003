"""Servers on the loopback interface that send broken responses, which tests define byte by byte."""

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

Behaviour = Callable[["BadServer", socket.socket], None]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


class BadServer:
    """Sends the same broken response to every request."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.requests = 0
        self.closing = threading.Event()
        self._behaviour = behaviour
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.recv(65_536)
                self.requests += 1
                self._behaviour(self, connection)
        except OSError:
            """The client has gone away, as it should."""


def sending_text(text: bytes) -> Behaviour:
    """Sends these bytes and closes the connection."""
    return lambda server, connection: connection.sendall(text)


def page(status: bytes, kind: bytes, body: bytes, *headers: bytes) -> Behaviour:
    """Sends a complete HTTP response."""
    lines = (b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *headers)
    return sending_text(b"\r\n".join(lines) + b"\r\n\r\n" + body)


def at_first(behaviour: Behaviour, later: Behaviour) -> Behaviour:
    """Uses one behaviour for the first request and another one for all later requests."""
    return lambda server, connection: (behaviour if server.requests == 1 else later)(server, connection)


def hanging(server: BadServer, connection: socket.socket) -> None:
    """Reads the request and sends nothing."""
    server.closing.wait(60)


def hanging_after_the_headers(server: BadServer, connection: socket.socket) -> None:
    connection.sendall(HEAD)
    server.closing.wait(60)


def trickling_its_body(server: BadServer, connection: socket.socket) -> None:
    connection.sendall(HEAD)
    _trickle(server, connection)


def trickling_its_headers(server: BadServer, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _trickle(server, connection)


def trickling_its_refusal(server: BadServer, connection: socket.socket) -> None:
    connection.sendall(HEAD.replace(b"200 OK", b"409 Conflict"))
    _trickle(server, connection)


def resetting(server: BadServer, connection: socket.socket) -> None:
    """Resets the connection in the middle of the response, as a killed process does."""
    connection.sendall(HEAD + b'{"positions": [1')
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _trickle(server: BadServer, connection: socket.socket) -> None:
    while not server.closing.wait(0.05):
        connection.sendall(b"x")
