"""Where the records of a conversation went, in an amount of memory that does not grow with the file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

NOWHERE = -1
"""The place of a record that stands behind no entry."""

_NEWEST = 2_000
_SLOTS = 1 << 21


class Places:
    """Positions by record id. Records nearly always go on from a new one, so the newest are held in memory.

    Older ones lie in a temporary database, which SQLite keeps in a file once it has outgrown its cache and
    removes when it is closed. One byte for each of two million hashes says of most ids that it is not there.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._older: sqlite3.Connection | None = None
        self._noted = bytearray()

    def __setitem__(self, id: str, place: int) -> None:
        self._newest[id] = place
        if len(self._newest) < 2 * _NEWEST:
            return
        with _disk_errors():
            if self._older is None:
                self._older = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                self._older.execute("PRAGMA journal_mode = OFF")
                self._older.execute("CREATE TABLE places (id BLOB PRIMARY KEY, place INTEGER) WITHOUT ROWID")
                self._noted = bytearray(_SLOTS)
            ids = list(self._newest)[:_NEWEST]
            for id in ids:
                self._noted[hash(id) % _SLOTS] = 1
            rows = [(_key(id), self._newest.pop(id)) for id in ids]
            with closing(self._older.cursor()) as cursor:
                cursor.execute("BEGIN")
                cursor.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", sorted(rows))
                cursor.execute("COMMIT")

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def close(self) -> None:
        """Removes the temporary database."""
        if self._older is not None:
            self._older.close()

    def get(self, id: str) -> int | None:
        """The position of a record, NOWHERE, or None for a record that was not seen.

        Raises:
            OSError: where the temporary folder cannot be used; so does setting a position.
        """
        place = self._newest.get(id)
        if place is None and self._older is not None and self._noted[hash(id) % _SLOTS]:
            with _disk_errors():
                row = self._older.execute("SELECT place FROM places WHERE id = ?", (_key(id),)).fetchone()
            return int(row[0]) if row else None
        return place


@contextmanager
def _disk_errors() -> Iterator[None]:
    """
    Raises:
        OSError: where the temporary folder has no room, or cannot be written to.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"the temporary folder cannot be used: {error}") from error


def _key(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")
