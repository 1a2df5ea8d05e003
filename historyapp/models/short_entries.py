"""Reads the shortest entries, for suggestions and previews, which can do without the longest ones."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from django.db import connection

from historyapp.core.lineage import Span
from historyapp.models.fields import (
    as_uuid,
    at_places,
    length_of_body,
    read_json,
    session_value,
    unpack,
    unpacked_size,
)
from historyapp.models.sql import fetch_all

MAX_SIZE = 1 << 22
"""The maximum number of bytes that one call reads."""
MAX_ENTRIES = 2_000
"""The maximum number of entries that one call reads."""


class ShortEntry(NamedTuple):
    """The columns of an entry that were read."""

    session: str
    position: int
    kind: str
    body: dict[str, Any]
    metadata: dict[str, Any]


def short_entries(spans: Sequence[Span], *, with_metadata: bool = False) -> list[ShortEntry]:
    """The shortest entries in some spans, live or not, up to :data:`MAX_SIZE`, in the order of the spans.

    The database sends no other bodies, so the call takes little memory, however long the entries are.

    Args:
        with_metadata: otherwise the metadata is empty and does not count.
    """
    if not spans:
        return []
    places, left = list[tuple[str, int]](), MAX_SIZE
    for session, position, size in _sizes(spans, with_metadata):
        left -= size
        if left < 0:
            break
        places.append((str(as_uuid(session)), position))
    entries = list(_read(places, with_metadata)) if places else []

    def place(entry: ShortEntry) -> tuple[int, int]:
        containing = (
            number
            for number, span in enumerate(spans)
            if span.session == entry.session and span.first <= entry.position <= span.last
        )
        return next(containing), entry.position

    return sorted(entries, key=place)


def _sizes(spans: Sequence[Span], with_metadata: bool) -> list[tuple[Any, int, int]]:
    """Session, position and stored bytes of the shortest entries, the shortest first."""
    size = length_of_body() + (f" + {length_of_body('metadata')}" if with_metadata else "")
    where = " OR ".join(["session_id = %s AND position BETWEEN %s AND %s"] * len(spans))
    values = [value for span in spans for value in (session_value(span.session), span.first, span.last)]
    return fetch_all(
        f"SELECT session_id, position, {size} AS size FROM historyapp_entry WHERE {where} "  # noqa: S608
        f"ORDER BY size, session_id, position LIMIT {MAX_ENTRIES}",
        values,
    )


def _read(places: Sequence[tuple[str, int]], with_metadata: bool) -> Iterator[ShortEntry]:
    where, values = at_places(places)
    metadata = "metadata" if with_metadata else "'{}'"
    left = MAX_SIZE
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT session_id, position, kind, body, {metadata} FROM historyapp_entry WHERE {where}",  # noqa: S608
            values,
        )
        for session, position, kind, packed, stored in cursor:
            size = unpacked_size(packed)  # on SQLite, a body may be long although its stored form is not
            if size <= left:
                left -= size
                body = read_json(unpack(packed))
                yield ShortEntry(str(as_uuid(session)), position, kind, body, read_json(stored))
