"""Sockets are found among the open files, whose locks stay held."""

import asyncio
import errno
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from historyapp.front import sockets
from historyapp.front.sockets import Connections, Peer, limit_unread, open_sockets, peers_by_address, surplus

TRY = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


def test_looking_for_sockets_releases_no_lock_of_an_open_database(tmp_path: Path) -> None:
    path = tmp_path / "held.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        limit_unread(10)
        other = subprocess.run([sys.executable, "-c", TRY, path], capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr


def test_sockets_that_listen_and_their_connections_are_found_and_stay_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        limit_unread(7)
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
        with socket.create_connection(server.getsockname()) as client:
            addresses = {opened.getsockname() for opened in open_sockets()}
            assert {server.getsockname(), client.getsockname()} <= addresses
            os.fstat(client.fileno())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows how long a connection has been silent")
def test_the_longest_silent_connection_is_closed_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = {server.getsockname()[1]}
        first, second = (socket.create_connection(server.getsockname()) for _ in range(2))
        accepted = [server.accept()[0] for _ in range(2)]
        time.sleep(0.05)
        first.sendall(b"GET ")
        accepted[0].recv(4)
        assert surplus(peers_by_address(ports), 1, set()) == [second.getsockname()]
        assert surplus(peers_by_address(ports), 1, {second.getsockname()}) == [first.getsockname()]
        assert surplus(peers_by_address(ports), 2, set()) == []
        for one in (first, second, *accepted):
            one.close()


def test_a_new_connection_is_counted_twice_before_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request may have arrived and reach Python after the first count."""

    async def count_twice(server: socket.socket) -> None:
        with (
            socket.create_connection(server.getsockname()) as first,
            socket.create_connection(server.getsockname()) as second,
            server.accept()[0],
            server.accept()[0],
        ):
            connections = Connections(10, 1)
            monkeypatch.setattr(
                connections, "_ports", {server.getsockname()[1]}
            )  # others may listen here, too
            monkeypatch.setattr(connections, "close", closed.append)
            connections._close_surplus()
            assert closed == []
            connections.busy.add(first.getsockname())
            connections._close_surplus()
            assert closed == [second.getsockname()]

    closed: list[Peer] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(count_twice(server))


def test_a_connection_is_closed_once_its_closing_is_awaited() -> None:
    async def close(server: socket.socket) -> bytes:
        with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
            client.settimeout(5)
            await Connections(10, 100).close(client.getsockname())
            return client.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert asyncio.run(close(server)) == b""


def test_a_connection_is_closed_later_if_the_process_has_no_free_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its request waits for that. Otherwise it would wait forever, or a part of a response look complete."""
    list_sockets, fails = sockets.open_sockets, iter([False, True])

    def open_sockets() -> Iterator[socket.socket]:
        if next(fails, False):
            raise OSError(errno.EMFILE, "Too many open files")
        return list_sockets()

    async def close(server: socket.socket) -> bytes:
        with socket.create_connection(server.getsockname()) as client, server.accept()[0]:
            client.settimeout(5)
            async with asyncio.timeout(5):
                await Connections(10, 100).close(client.getsockname())
            return client.recv(1)

    monkeypatch.setattr(sockets, "open_sockets", open_sockets)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert asyncio.run(close(server)) == b""
    assert next(fails, None) is None
