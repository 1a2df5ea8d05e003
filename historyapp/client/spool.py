"""Writes that wait on disk until the server can be reached again.

The file is an SQLite database, because a process may be killed at any moment, and several processes may share
one file.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from historyapp.client.errors import NotSpooled

MIN_BYTES = 65_536
"""The smallest allowed ``max_bytes`` of a spool. An empty file takes a part of it."""
_PAGE = 4096
_RESERVE = 64
"""Pages beyond the limit, so that a full file can still store that a write was refused."""
_BUSY_SECONDS = 5.0
_TABLES = """
CREATE TABLE IF NOT EXISTS writes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    made_at TEXT NOT NULL,
    problem TEXT
);
CREATE INDEX IF NOT EXISTS waiting ON writes (server, id) WHERE problem IS NULL;
"""


@dataclass(frozen=True, slots=True)
class Write:
    """A request. Every attempt sends the same path, key and bytes."""

    server: str
    path: str
    key: str
    """The ``Idempotency-Key``."""
    body: bytes
    id: int = 0
    """The write's id in the spool."""


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """A write that the server refused when it was sent from the spool. No session contains it."""

    path: str
    body: Any
    made_at: datetime
    problem: dict[str, Any]
    """The server's problem document."""


class Spool:
    """A bounded file in which writes wait while the server cannot be reached.

    Args:
        path: the file, which is created if it does not exist. None: one file for all agents of this user,
            ``~/.local/state/playhead/spool``.
        max_bytes: the maximum size of the file, at least 65,536.
        patience: seconds that a write waits for the server before it goes to the file.

    Raises:
        ValueError: for invalid arguments, and for a file that is not a spool.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        max_bytes: int = 64 * 2**20,
        patience: float = 2.0,
    ) -> None:
        if max_bytes < MIN_BYTES:
            raise ValueError(f"max_bytes is {max_bytes}. A spool needs at least {MIN_BYTES}.")
        if not patience > 0:
            raise ValueError(f"patience is {patience!r}. It must be more than 0 seconds.")
        self.path = Path(path) if path is not None else Path.home() / ".local/state/playhead/spool"
        self.max_bytes, self.patience = max_bytes, patience
        self._too_long = Counter[int]()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # It contains agents' texts, so other users must not read it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            with self._open() as file:
                file.executescript(_TABLES)
        except (OSError, NotSpooled) as error:
            cause = error.__cause__ or error
            detail = f"{self.path} cannot be a spool: {cause}. Name another file, or move this one away."
            raise ValueError(detail) from cause

    def waiting(self, server: str | None = None) -> int:
        """The number of waiting writes: for one server, or in total."""
        query = "SELECT count(*) FROM writes WHERE problem IS NULL AND (?1 IS NULL OR server = ?1)"
        with self._open() as file:
            count: int = file.execute(query, (server,)).fetchone()[0]
            return count

    def refused(self) -> list[RefusedWrite]:
        """The writes that the server refused, oldest first. They stay until they are discarded."""
        query = "SELECT path, body, made_at, problem FROM writes WHERE problem IS NOT NULL ORDER BY id"
        with self._open() as file:
            return [
                RefusedWrite(path, json.loads(body), datetime.fromisoformat(made_at), json.loads(problem))
                for path, body, made_at, problem in file.execute(query)
            ]

    def discard_refused(self) -> int:
        """Deletes the writes that the server refused. Returns their number."""
        with self._open(reserve=_RESERVE) as file:
            return file.execute("DELETE FROM writes WHERE problem IS NOT NULL").rowcount

    # Used by the clients

    def put(self, write: Write) -> None:
        """Adds a write at the end.

        Raises:
            NotSpooled: when the file is full, or cannot be written.
        """
        row = (write.server, write.path, write.key, write.body, datetime.now(UTC).isoformat())
        with self._open() as file:
            file.execute("INSERT INTO writes (server, path, key, body, made_at) VALUES (?, ?, ?, ?, ?)", row)

    def first(self, server: str, paths: Sequence[str] = ()) -> Write | None:
        """The next write to send, or None if no write waits.

        Args:
            paths: only writes to these paths; empty: to any path.
        """
        condition = f" AND path IN ({', '.join('?' * len(paths))})" if paths else ""
        query = (
            "SELECT path, key, body, id FROM writes "  # noqa: S608  only question marks are inserted
            f"WHERE problem IS NULL AND server = ?{condition} ORDER BY id LIMIT 1"
        )
        with self._open() as file:
            row = file.execute(query, (server, *paths)).fetchone()
        return Write(server, *row) if row else None

    def remove(self, write: Write) -> None:
        """Removes a write that the server has stored."""
        with self._open(reserve=_RESERVE) as file:
            file.execute("DELETE FROM writes WHERE id = ?", (write.id,))

    def mark_refused(self, write: Write, problem: dict[str, Any]) -> None:
        """Marks a write that the server refused, so that it is not sent again."""
        with self._open(reserve=_RESERVE) as file:
            text = json.dumps(problem)
            file.execute("UPDATE writes SET problem = ? WHERE id = ?", (text, write.id))

    def count_too_long(self, write: Write) -> int:
        """Counts that storing a write took the server too long. Returns how often it has, for this object."""
        self._too_long[write.id] += 1
        return self._too_long[write.id]

    def lock(self) -> sqlite3.Connection | None:
        """Locks the spool for sending. Returns None if another thread or process holds the lock.

        Closing the connection releases the lock, and so does the end of the process.
        """
        path = self.path.with_name(self.path.name + ".lock")
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error:
                connection.close()
                raise
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return None
            raise NotSpooled(f"The lock of the spool {self.path} cannot be used: {error}.") from error
        return connection

    @contextmanager
    def _open(self, reserve: int = 0) -> Iterator[sqlite3.Connection]:
        """A connection for one statement: connections do not survive a fork, and belong to one thread."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as file:
                file.execute(f"PRAGMA max_page_count = {self.max_bytes // _PAGE + reserve}")
                yield file
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                raise NotSpooled(f"The spool {self.path} cannot be used: {error}.") from error
            raise NotSpooled(
                f"This write was not recorded, because the spool {self.path} is full: its limit is "
                f"{self.max_bytes:,} bytes, and the disk needs free space. "
                "Start the server, so that the writes can be sent, or use a larger max_bytes."
            ) from error

    def __repr__(self) -> str:
        return f"Spool({str(self.path)!r}, max_bytes={self.max_bytes}, patience={self.patience})"
