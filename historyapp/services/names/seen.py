"""What the model saw before the next entries of a session, for the chunks of the index of names.

A chunk ends with a rewind, and a session may have thousands of them. A rewind only cuts off the newest
entries, so the entries before it are not read again for the next chunk.
"""

from collections.abc import Collection

from historyapp.core.compactions import KEPT_ROWS, RemovedEntries
from historyapp.core.entries import INPUT_KINDS, Entry
from historyapp.core.lineage import Lineage
from historyapp.core.origins import mentions_of
from historyapp.core.windows import LogRow
from historyapp.models import Session
from historyapp.models.own_rows import OwnRow
from historyapp.models.sql import newest_or_oldest, window_rows

_STANDING = ("system_instruction", "memory_notebook")
"""Compactions do not remove the newest instruction and notebook."""


class SeenEntries:
    """The live entries before a session's next entry.

    Args:
        position: the position before the next entry.
        max_size: the maximum number of bytes to read of them. They are read again after as many bytes of
            further entries, so that these do not accumulate in memory.
    """

    def __init__(self, session: Session, position: int, max_size: int) -> None:
        self._session, self._max_size = session, max_size
        self.lineage = session.lineage(position).cut(position)
        self._removed: RemovedEntries | None = None
        self._standing: dict[str, tuple[int, set[int]]] = {}
        """The position and the keys of the newest instruction and notebook; position 0 if there is none."""
        self._all_standing: set[int] | None = None
        self._position = position
        self._added = 0
        """The bytes of the entries that were added since the others were read."""
        self._rows_to_read = KEPT_ROWS

    @property
    def removed(self) -> RemovedEntries:
        if self._removed is None:
            rows = window_rows(self.lineage, self._max_size)
            self._removed, self._added = RemovedEntries(rows, self._rows_to_read), 0
        return self._removed

    def standing_names(self) -> set[int]:
        """The keys in the newest instruction and notebook. Each action asks for them, and there may be
        thousands."""
        if self._all_standing is None:
            for kind in _STANDING:
                if kind not in self._standing:
                    entry = newest_or_oldest(self.lineage, kind, self._session, newest=True)
                    keys = {mention.key for mention in mentions_of(entry.body).mentions} if entry else set()
                    self._standing[kind] = entry.position if entry else 0, keys
            self._all_standing = set[int]().union(*(keys for _, keys in self._standing.values()))
        return self._all_standing

    def add(self, row: OwnRow, entry: Entry, keys: Collection[int]) -> None:
        """The next entry, with the keys in it. Not for a rewind, which ends a chunk."""
        if row.kind in _STANDING:
            self._standing[row.kind] = row.position, set(keys)
            self._all_standing = None
            return
        body = row.body if row.kind in (*INPUT_KINDS, "debug_log") else {}
        self._added += row.size
        self.removed.add(LogRow(row.position, row.kind, row.created_at, row.tokens, entry.metadata, body))

    def end_chunk(self, last: OwnRow) -> None:
        """Continues after a chunk.

        Args:
            last: the newest entry of the chunk.
        """
        is_rewind = last.kind == "rewind"
        last_added = last.position - is_rewind
        self.lineage = self._session.extended(self.lineage, self._position + 1, last_added)
        self._position = last.position
        if is_rewind:
            self._rewind(self._session.stored_lineage(last.body))
        if self._added > self._max_size:
            self._removed = None

    def _rewind(self, remaining: Lineage) -> None:
        end = remaining.last
        is_cut = end > 0 and self.lineage.session_at(end) == remaining.session_at(end)
        self.lineage = remaining
        for kind, (position, _) in [*self._standing.items()]:
            # A rewind into a take may also restore an older instruction.
            if not is_cut or position > end:
                del self._standing[kind]
                self._all_standing = None
        if self._removed is not None and not (is_cut and self._removed.cut(end)):
            self._removed, self._rows_to_read = None, 2 * KEPT_ROWS
