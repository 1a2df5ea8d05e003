"""Reads a session's own entries, in little memory whatever their length."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from historyapp.core import entries as core
from historyapp.core.json import load_dumped
from historyapp.models.fields import unpack, uuid_value
from historyapp.models.long_rows import long_rows
from historyapp.models.sql import as_aware

_RANGE = 500
"""Positions of one query."""
_OWN_ROWS = (
    "SELECT position, kind, created_at, body, tokens, totals, metadata FROM historyapp_entry "
    "WHERE session_id = %s AND position BETWEEN %s AND %s ORDER BY position"
)


class OwnRow(NamedTuple):
    """The columns of an entry, read without an instance of the model."""

    position: int
    kind: str
    created_at: datetime
    body: dict[str, Any]
    tokens: int
    totals: dict[str, Any]
    metadata: dict[str, Any]

    def core(self) -> core.Entry:
        """The entry as a value of the core."""
        body = core.load_body(self.kind, self.body)
        return core.Entry(self.position, body, self.created_at, self.metadata, self.tokens)


def own_rows(session: UUID, first: int, last: int) -> Iterator[OwnRow]:
    """A session's own entries between two positions (both included), live or not, in order.

    One body at a time is read from its stored form, so entries of any length take little memory.
    """
    for start in range(first, last + 1, _RANGE):
        # A range, not a limit: for a limit, PostgreSQL may read and sort all entries of a session.
        values = [uuid_value(session), start, min(last, start + _RANGE - 1)]
        for position, kind, created_at, body, tokens, totals, metadata in long_rows(
            _OWN_ROWS, values, "position", ("body", "metadata")
        ):
            at, content = as_aware(created_at), load_dumped(unpack(body))
            yield OwnRow(position, kind, at, content, tokens, load_dumped(totals), load_dumped(metadata))
