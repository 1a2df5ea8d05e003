"""Reads a log row by row and tracks which entries the model no longer sees, by the rule of
``historyapp.core.windows``."""

import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice

from historyapp.core.entries import text_of
from historyapp.core.json import mapping
from historyapp.core.windows import CLEARED, LogRow, find_window, is_clear

KEPT_ROWS = 1_024
"""The number of newest rows that are kept. Condensers forget single entries, which are always recent."""
_MOST_UNREAD = 128
"""The number of rows after which a replacement of entries is read, if nobody asks earlier. Each reading looks
at all kept rows, and each row may be a replacement.
"""


class RemovedEntries:
    """The entries that compactions have removed so far.

    Args:
        newest_first: the rows before the next one.
        count: the maximum number of them to read, at most twice :data:`KEPT_ROWS`. More than that number are
            only needed after rewinds.
    """

    def __init__(self, newest_first: Iterable[LogRow] = (), count: int = KEPT_ROWS) -> None:
        self._rows: deque[LogRow] = deque(maxlen=2 * KEPT_ROWS)
        self._window_start = 0
        self._kept_before: set[int] = set()
        self._forgotten: set[int] = set()
        self._unread = 0
        """The rows since the first replacement that has not been read."""
        self._rows.extendleft(islice(newest_first, count))
        is_all = len(self._rows) < count
        self._enough = len(self._rows) // 2 if is_all else KEPT_ROWS
        """The number of rows that must be left after a rewind."""
        self._compact()

    def add(self, row: LogRow) -> None:
        """The next row of the log."""
        if len(self._rows) == 2 * KEPT_ROWS:
            self._enough = KEPT_ROWS
        self._rows.append(row)
        if self._unread or _replaces(row):
            self._unread += 1
        if self._unread >= _MOST_UNREAD:
            self._compact()

    def cut(self, last: int) -> bool:
        """Drops the rows after a position, which a rewind has cut off. False if the rows before it must be
        read again, because too few are left or compactions were cut off."""
        while self._rows and self._rows[-1].position > last:
            if _replaces(self._rows.pop()):
                return False
        return len(self._rows) >= self._enough

    def is_removed(self, position: int) -> bool:
        """Whether the model no longer sees an entry that it once saw."""
        if self._unread:
            self._compact()
        if position < self._window_start:
            return position not in self._kept_before
        return position in self._forgotten

    def _compact(self) -> None:
        self._unread = 0
        rows = list(islice(reversed(self._rows), KEPT_ROWS))
        if not any(map(_replaces, rows)):
            return
        window = find_window(rows, sys.maxsize)
        seen = {row.position for row in window.rows}
        if window.begins in ("compaction", "cleared") and window.position:
            self._window_start = window.position
            self._kept_before = {position for position in seen if position < window.position}
        logged = [row.position for row in rows if row.kind != "debug_log"]
        self._forgotten |= {position for position in logged if position >= self._window_start} - seen


def _replaces(row: LogRow) -> bool:
    """Whether a row may replace the entries before it."""
    if row.kind == "debug_log":
        condensation = mapping(mapping(row.metadata.get("source")).get("condensed"))
        return bool(row.metadata.get("replacement_history") or condensation) or is_clear(row)
    if row.channel == "compaction":
        return True
    return row.channel == "command" and CLEARED in text_of(row.body.get("content"))
