"""The index for searching all sessions: a row for each step, and its tokens in the database's text index.

On SQLite the tokens are in a contentless FTS5 table, on PostgreSQL in a text column with a GIN index.
Migrations create both. See ``historyapp.core.search_documents``.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db import models

from historyapp.core.json import load_dumped
from historyapp.core.search_documents import SearchDocument, UnreadEntry, document_of, split_steps
from historyapp.models.fields import (
    PackedText,
    as_uuid,
    length_of_body,
    unpack,
    unpacked_size,
    uuid_value,
)
from historyapp.models.projects import Project
from historyapp.models.sessions import Session
from historyapp.models.sql import as_aware, fetch_all

_RANGE = 200
"""Positions of one query."""
_SHORT_BODY = 1 << 14
"""Bytes up to which a stored body is read together with others."""
_ENTRY_SIZE = 2_000
"""The characters that take about as long to read as an entry without its body."""
_ENTRIES = (
    "SELECT session_id, position, kind, created_at, tokens, totals, {length}, "
    "CASE WHEN {length} <= {short} THEN body END FROM historyapp_entry WHERE {where} ORDER BY position"
)
_BETWEEN = "session_id = %s AND position BETWEEN %s AND %s"
_BODY = "SELECT body FROM historyapp_entry WHERE session_id = %s AND position = %s"


class SearchStep(models.Model):
    """A step of the log, live or not. A fork has rows only for its own entries."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="+", db_index=False)
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    anchor = models.PositiveIntegerField()
    """The position of the step's output. The step is live wherever this entry is live."""
    step = models.PositiveIntegerField()
    at = models.DateTimeField()
    status = models.CharField(max_length=20, blank=True)
    tools = models.CharField(max_length=400, blank=True)
    """The names of the called tools, one in each line."""
    checksum = models.PositiveIntegerField()
    """The version of the tokens."""
    is_capped = models.BooleanField(default=False)
    """Whether the step's texts are too long to be indexed completely."""
    open_tokens = PackedText(null=True)
    """On SQLite, the tokens of a session's newest step. The step may grow, and FTS5 needs the old tokens to
    remove them.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session", "first_position"), name="search_step_once"),
        )
        indexes = (models.Index(fields=("project", "id"), name="search_step_newest"),)

    def __str__(self) -> str:
        return f"step {self.step} of {self.session_id}"


class SearchProgress(models.Model):
    """The last change that the index of a project includes."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True, related_name="+")
    cursor = models.CharField(max_length=50)
    """The cursor of the feed, see ``historyapp.models.changes``."""
    is_behind = models.BooleanField(default=True)
    """Whether sessions that were recorded before the cursor are still to be indexed."""
    done_to = models.UUIDField(null=True)
    """The last of these sessions that is indexed, in the order of ids."""

    def __str__(self) -> str:
        return f"search index of {self.project_id}"


class ReadingStopped(Exception):
    """Making the documents would read more than the limit, or the session was deleted meanwhile."""


class ReadCount:
    """Counts the characters that making documents reads.

    Args:
        limit: None: no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.characters = 0
        self.limit = limit

    def check(self, size: int) -> None:
        """Raises :class:`ReadingStopped` if ``size`` more characters exceed the limit."""
        if self.limit is not None and self.characters + size > self.limit:
            raise ReadingStopped

    def add(self, size: int) -> None:
        """Counts characters before they are read. Raises like :meth:`check`."""
        self.check(size)
        self.characters += size


def logged_entries(
    session: UUID, first: int, last: int, count: ReadCount | None = None
) -> Iterator[UnreadEntry]:
    """A session's own entries between two positions (both included). Long bodies are read one by one.

    Raises:
        ReadingStopped: by iterating and by :attr:`UnreadEntry.read`, before it exceeds the limit.
    """
    count = count or ReadCount()
    for start in range(first, last + 1, _RANGE):
        end = min(last, start + _RANGE - 1)
        readable = end if count.limit is None else _readable_to(session, start, end, count)
        values = [uuid_value(session), start, readable]
        for _, logged in entries_where(_BETWEEN, values, count, _SHORT_BODY):
            count.add(_ENTRY_SIZE)
            yield logged
        if readable < end:
            raise ReadingStopped


def _readable_to(session: UUID, first: int, last: int, count: ReadCount) -> int:
    """The last position up to which the stored bodies are within the limit, and one more, whose kind tells
    whether a step ends before it. Reads only lengths: SQLite walks through a long body to read the columns
    after it.
    """
    statement = (
        f"SELECT position, {length_of_body()} FROM historyapp_entry WHERE {_BETWEEN} ORDER BY position"  # noqa: S608 ours
    )
    total = 0
    for position, length in fetch_all(statement, [uuid_value(session), first, last]):
        total += length
        if count.limit is not None and count.characters + total > count.limit:
            return int(position)
    return last


def entries_where(
    where: str, values: Sequence[Any], count: ReadCount, short_body: int
) -> Iterator[tuple[UUID, UnreadEntry]]:
    """The entries that an SQL condition selects, with their sessions, in the order of their positions.

    Args:
        count: counts the bodies that are read, see :class:`ReadingStopped`.
        short_body: bytes up to which a stored body is read together with others.
    """
    statement = _ENTRIES.format(length=length_of_body(), short=short_body, where=where)
    for owner, position, kind, at, tokens, totals, length, body in fetch_all(statement, values):
        session = as_uuid(owner)
        step = load_dumped(totals).get("steps", 0)
        read = partial(_read_body, session, position, length, body, count)
        yield session, UnreadEntry(position, kind, step, as_aware(at), tokens, read)


def _read_body(
    session: UUID, position: int, length: int, packed: Any, count: ReadCount
) -> tuple[dict[str, Any], int]:
    """The body of an entry and its length in characters.

    Args:
        length: of the stored form, which may be compressed.
        packed: the stored form. None: it is long, so it was not read.
    """
    count.check(length)
    if packed is None:
        rows = fetch_all(_BODY, [uuid_value(session), position])
        if not rows:
            raise ReadingStopped
        packed = rows[0][0]
    count.add(unpacked_size(packed))
    text = unpack(packed)
    return load_dumped(text), len(text)


def documents(
    project: UUID, session: UUID, first: int, last: int, count: ReadCount | None = None
) -> Iterator[SearchDocument]:
    """The search documents of a session's own entries. A document must begin at ``first``.

    Raises:
        ReadingStopped: see :class:`ReadCount`.
    """
    for step_entries in split_steps(logged_entries(session, first, last, count)):
        yield document_of(project, session, step_entries)
