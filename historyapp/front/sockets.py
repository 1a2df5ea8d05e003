"""What granian does not do with its sockets: close those of clients that read nothing."""

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress

GATHER_SECONDS = 0.05
"""Connections are closed together this often: each time costs a look at all open files."""


class Closer:
    """Closes connections although granian still writes to them. Belongs to the event loop."""

    def __init__(self) -> None:
        self._clients: set[tuple[str, int]] = set()

    def close(self, client: tuple[str, int]) -> None:
        """Closes the connection of a client in a moment, whatever of its response is still unread."""
        if not self._clients:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._close_gathered)
        self._clients.add(client)

    def _close_gathered(self) -> None:
        clients, self._clients = self._clients, set()
        for opened in open_sockets():
            with suppress(OSError):  # closed meanwhile, or not connected
                if opened.getpeername()[:2] in clients:
                    opened.shutdown(socket.SHUT_RDWR)


def limit_unread(seconds: float) -> None:
    """Has the kernel close a connection whose client reads nothing for this long.

    New connections inherit the option of the socket that listens. granian opens that one in Rust and does
    not hand it out, so it is looked up among the files of this process.
    """
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    for opened in open_sockets():
        with suppress(OSError):  # closed meanwhile
            if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def open_sockets() -> Iterator[socket.socket]:
    """The internet sockets of this process, each until the next one is asked for.

    No descriptor is duplicated or closed here: to close a duplicate of SQLite's database file would release
    all locks that this process holds on it (POSIX), and others would then overwrite what it writes.
    """
    for name in os.listdir("/dev/fd"):  # noqa: PTH208  names, which Path would only wrap
        descriptor = int(name)
        with suppress(OSError):  # closed meanwhile
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            opened = socket.socket(fileno=descriptor)
            try:
                if opened.family in (socket.AF_INET, socket.AF_INET6):
                    yield opened
            finally:
                opened.detach()
