"""Closes stalled connections, and connections beyond the limit of an address. granian closes neither."""

import asyncio
import os
import socket
import stat
import sys
from collections import defaultdict
from collections.abc import Iterator, Set
from contextlib import suppress

from historyapp.front.environ import Scope
from historyapp.network import network_of

BATCH_SECONDS = 0.05
"""Connections are closed in batches, because each batch reads all open files."""
COUNT_SECONDS = 1.0
"""Seconds between two counts of each address's connections."""

Peer = tuple[str, int]
"""Address and port of a client."""


class Connections:
    """Closes connections that granian keeps open. Used in the event loop; created when the server listens."""

    def __init__(self, stall_seconds: float, max_connections: int) -> None:
        """Starts counting connections.

        Args:
            stall_seconds: the kernel closes a connection if its client reads nothing for this long.
            max_connections: the maximum number of open connections of one address.
        """
        self._loop = asyncio.get_running_loop()
        self._max_connections = max_connections
        self._ports = limit_unread(stall_seconds)
        self._to_close: set[Peer] = set()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        """Done when the clients of ``_to_close`` are disconnected."""
        self._counted: set[Peer] = set()
        """Clients that were connected at the last count."""
        self.busy: set[Peer] = set()
        """Clients that wait for a response."""
        self._loop.call_later(COUNT_SECONDS, self._close_surplus)

    def close(self, client: Peer) -> "asyncio.Future[None]":
        """Closes a client's connection with the next batch, even if the response is not read.

        Returns:
            A future that is done when the connection is closed. Several callers share it.
        """
        if not self._to_close:
            self._loop.call_later(BATCH_SECONDS, self._close_batch)
        self._to_close.add(client)
        return self._closed

    def _close_batch(self) -> None:
        try:
            for sock in open_sockets():
                with suppress(OSError):  # closed meanwhile, or not connected
                    if sock.getpeername()[:2] in self._to_close:
                        sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # the process has no free descriptor to list its open files
            self._loop.call_later(BATCH_SECONDS, self._close_batch)
            return
        self._to_close.clear()
        closed, self._closed = self._closed, self._loop.create_future()
        closed.set_result(None)

    def _close_surplus(self) -> None:
        self._loop.call_later(COUNT_SECONDS, self._close_surplus)
        counted, self._counted = self._counted, set()
        if len(os.listdir("/dev/fd")) <= self._max_connections:  # noqa: PTH208  as below
            return
        by_address = peers_by_address(self._ports)
        for client in surplus(by_address, self._max_connections, self.busy):
            # A new client is closed at the second count: its request may not have reached Python yet.
            if client in counted or client in self.busy:
                self.close(client)
        self._counted = {client for peers in by_address.values() for _, client in peers}


def peer_of(scope: Scope) -> Peer:
    """The client of a request. granian gives the port as a string, the standard as an integer."""
    host, port = scope.get("client") or ("", 0)
    return host, int(port)


def peers_by_address(ports: Set[int]) -> dict[str, list[tuple[int, Peer]]]:
    """The clients that are connected to these ports, with the milliseconds since each last sent data."""
    by_address: dict[str, list[tuple[int, Peer]]] = defaultdict(list)
    for sock in open_sockets():
        with suppress(OSError):  # not connected
            client = sock.getpeername()[:2]
            if sock.getsockname()[1] in ports:
                by_address[network_of(client[0])].append((silent_milliseconds(sock), client))
    return by_address


def surplus(by_address: dict[str, list[tuple[int, Peer]]], limit: int, busy: Set[Peer]) -> list[Peer]:
    """The connections to close so that no address has more than ``limit``.

    Connections without a request are closed first, those with the longest silence before others: a client
    that has just connected is about to send its request.
    """
    closed: list[Peer] = []
    for peers in by_address.values():
        ordered = sorted((client in busy, -silence, client) for silence, client in peers)
        closed += [client for *_, client in ordered[: max(len(peers) - limit, 0)]]
    return closed


def silent_milliseconds(sock: socket.socket) -> int:
    """The time since the peer connected or last sent data. 0 on systems other than Linux."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)
    return int.from_bytes(info[52:56], sys.byteorder)  # tcpi_last_data_recv in linux/tcp.h


def limit_unread(seconds: float) -> set[int]:
    """Makes the kernel close a connection if its client reads nothing for this long.

    New connections inherit the option from the listening socket. granian opens that socket in Rust and does
    not expose it, so this function finds it among the open files of the process.

    Returns:
        The ports that this process listens on.
    """
    ports = set()
    for sock in open_sockets():
        with suppress(OSError):  # closed meanwhile
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(sock.getsockname()[1])
                if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
    return ports


def open_sockets() -> Iterator[socket.socket]:
    """The internet sockets of this process. Each is valid until the next one is read.

    No descriptor is duplicated or closed here. On POSIX, closing a duplicate of SQLite's database file
    releases all locks that this process holds on it, and other processes could then overwrite its writes.
    """
    for name in os.listdir("/dev/fd"):  # noqa: PTH208  names, which Path would only wrap
        descriptor = int(name)
        with suppress(OSError):  # closed meanwhile
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=descriptor)
            try:
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    yield sock
            finally:
                sock.detach()
