"""Numbers by record id, in a fixed amount of memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

NOWHERE = -1
"""The position of a record that follows no entry."""

_NEWEST = 2_000
_SLOTS = 1 << 21


class RecordIndex:
    """A number for each record id, such as the position of its entry.

    The newest ids are in memory, because nearly every record follows a recent one. Older ids are in a
    temporary database, which SQLite writes to a file if it exceeds the cache and removes on closing. A table
    of hashes shows for most unknown ids that the database does not contain them.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._older: sqlite3.Connection | None = None
        self._older_hashes = bytearray()

    def __setitem__(self, id: str, number: int) -> None:
        self._newest[id] = number
        if len(self._newest) < 2 * _NEWEST:
            return
        with _disk_errors():
            if self._older is None:
                self._older = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                self._older.execute("PRAGMA journal_mode = OFF")
                self._older.execute("CREATE TABLE numbers (id BLOB PRIMARY KEY, n INTEGER) WITHOUT ROWID")
                self._older_hashes = bytearray(_SLOTS)
            ids = list(self._newest)[:_NEWEST]
            for id in ids:
                self._older_hashes[hash(id) % _SLOTS] = 1
            rows = [(_key(id), self._newest.pop(id)) for id in ids]
            with closing(self._older.cursor()) as cursor:
                cursor.execute("BEGIN")
                cursor.executemany("INSERT OR REPLACE INTO numbers VALUES (?, ?)", sorted(rows))
                cursor.execute("COMMIT")

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def close(self) -> None:
        """Removes the temporary database."""
        if self._older is not None:
            self._older.close()

    def get(self, id: str) -> int | None:
        """The number of a record, or None for an unknown record.

        Raises:
            OSError: if the temporary folder cannot be used. Setting a number raises it, too.
        """
        number = self._newest.get(id)
        if number is None and self._older is not None and self._older_hashes[hash(id) % _SLOTS]:
            with _disk_errors():
                row = self._older.execute("SELECT n FROM numbers WHERE id = ?", (_key(id),)).fetchone()
            return int(row[0]) if row else None
        return number


@contextmanager
def _disk_errors() -> Iterator[None]:
    """
    Raises:
        OSError: if the temporary folder is full or not writable.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"The temporary folder cannot be used: {error}") from error


def _key(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")
