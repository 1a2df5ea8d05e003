"""The feed of changes in the sessions of a project, in order.

A transaction adds a row for each change. On PostgreSQL a transaction may commit after another one whose rows
have higher numbers, so a reader that orders by number alone would skip its rows. Readers therefore order
changes by transaction, and read only those of transactions that began before the oldest one that still runs.
Transactions in other databases of the same server are ignored: one that never ends would stop the feed.
SQLite has one writer at a time, so its numbers are in order.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, models
from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.models.fields import (
    CompactTime,
    CompactUUID,
    compact_uuid,
    read_compact_time,
    read_compact_uuid,
    uuid_value,
)
from historyapp.models.projects import Project
from historyapp.models.sql import fetch_all
from historyapp.models.vendor import on_sqlite
from historyapp.wire.problems import CursorExpired

MAX_CHANGES = 1000
"""The maximum number of changes of one read."""
MAX_SKIPPED = 20_000
"""The maximum number of changes among which one read looks for those of a session. The database passes over
the others, so they take no time of other threads."""
_COLUMNS = "transaction_id, id, kind, session_id, first_position, last_position, run_id, at"
_PAGE = (
    f"SELECT {_COLUMNS} FROM historyapp_change WHERE project_id = %s "  # noqa: S608
    "AND {is_after}{settled} ORDER BY transaction_id, id LIMIT %s"
)
_PAGE_OF_SESSION = (
    f"WITH part AS ({_PAGE}) "  # noqa: S608
    f"SELECT {_COLUMNS}, 0 FROM (SELECT * FROM part WHERE session_id = %s AND kind <> '{{pruned}}' "
    "ORDER BY transaction_id, id LIMIT %s) AS found "
    f"UNION ALL SELECT {_COLUMNS}, -1 FROM "
    "(SELECT * FROM part ORDER BY transaction_id, id LIMIT 1) AS oldest "
    f"UNION ALL SELECT {_COLUMNS}, (SELECT COUNT(*) FROM part) FROM "
    "(SELECT * FROM part ORDER BY transaction_id DESC, id DESC LIMIT 1) AS newest"
)
"""The changes of a session among a part of the feed; its oldest change, marked by -1; and its newest change
with the number of rows of the part."""
_NEWEST = (
    "SELECT transaction_id, id FROM historyapp_change WHERE project_id = %s{settled} "
    "ORDER BY transaction_id DESC, id DESC LIMIT 1"
)
_HORIZON = """(
    SELECT least(
        coalesce(
            min(id::text::bigint) FILTER (WHERE
                NOT EXISTS (
                    SELECT FROM pg_stat_get_activity(NULL) WHERE backend_xid = id::xid AND datid <> {ours}
                ) AND NOT EXISTS (
                    SELECT FROM pg_prepared_xact() WHERE transaction = id::xid AND dbid <> {ours}
                )
            ),
            CASE count(*) WHEN 0 THEN {xmin} ELSE {xmax} END
        ),
        pg_current_xact_id_if_assigned()::text::bigint
    ) FROM pg_snapshot_xip(pg_current_snapshot()) AS id
)""".format(  # noqa: S608
    ours="(SELECT oid FROM pg_database WHERE datname = current_database())",
    xmin="pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    xmax="pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
)
"""The lowest number of a transaction in this database that still runs; all lower ones have ended.

A snapshot lists the running transactions of all databases. One is ignored only if the list of connections or
of prepared transactions names another database. A standby lists no transactions: the snapshot's lowest number
counts there. The view pg_stat_activity would take twice as long to plan as the function.
"""
_SETTLED = f" AND transaction_id < {_HORIZON}"
_NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_PROGRESS = {"sqlite": "PRAGMA data_version", "postgresql": f"SELECT {_HORIZON}"}
_MAX_DIGITS = 18


class ChangeKind(models.TextChoices):
    """What changed. The values are the event kinds of the API."""

    SESSION_CREATED = "session_created", "session created"
    ENTRIES = "entries", "entries appended"
    REWIND = "rewind", "rewind"
    SUMMARIES = "summaries", "summaries"
    RUN = "run", "compression run"
    BUDGET = "budget", "spending cap reached"
    NOTES = "notes", "notes"
    SESSION_CHANGED = "session_changed", "session changed"
    SESSION_DELETED = "session_deleted", "session deleted"
    PRUNED = "pruned", "older changes deleted"
    """Marks that older changes were deleted. Readers never see it."""


class Change(models.Model):
    """One change to one session in one transaction."""

    transaction_id = models.BigIntegerField(default=0)
    """The number of the transaction on PostgreSQL; 0 on SQLite."""
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    session_id = CompactUUID()
    """Not a foreign key: the row stays when the session is deleted."""
    kind = models.CharField(max_length=16)
    first_position = models.PositiveIntegerField(null=True)
    last_position = models.PositiveIntegerField(null=True)
    """The positions of appended entries. Null for other kinds."""
    run_id = CompactUUID(null=True)
    """The compression run."""
    at = CompactTime(default=timezone.now)

    class Meta:
        indexes = (models.Index(fields=("project", "transaction_id", "id"), name="change_in_order"),)

    def __str__(self) -> str:
        return f"{self.kind} of {self.session_id}"


class Cursor(NamedTuple):
    """A place in the feed of a project."""

    transaction_id: int
    id: int

    def __str__(self) -> str:
        return f"{self.transaction_id}-{self.id}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parses the result of ``str()``.

        Raises:
            Invalid: if the text is not a cursor.
        """
        parts = text.split("-")
        are_numbers = all(part.isdecimal() and part.isascii() and len(part) <= _MAX_DIGITS for part in parts)
        if len(parts) == 2 and are_numbers:
            return cls(int(parts[0]), int(parts[1]))
        raise Invalid(
            "This is not a cursor of events. Send the cursor of an event, or `next` of a page, unchanged; "
            "leave it out to start from the beginning."
        )


START = Cursor(0, 0)
"""Before the oldest change."""


class ReadChange(NamedTuple):
    """A change as returned to readers."""

    cursor: Cursor
    kind: str
    session: UUID
    first_position: int | None
    last_position: int | None
    run: UUID | None
    at: datetime


class ChangePage(NamedTuple):
    changes: Sequence[ReadChange]
    cursor: Cursor
    """The place after the changes that were read, including those of other sessions."""
    has_more: bool


def changes_since(
    project: UUID, cursor: Cursor = START, *, limit: int = MAX_CHANGES, session: UUID | None = None
) -> ChangePage:
    """The changes of a project after a cursor, oldest first, without gaps.

    Args:
        limit: the maximum number of changes.
        session: return only the changes of this session, among the next :data:`MAX_SKIPPED` of the project.
            So a page can be empty before the end of the feed.

    Raises:
        CursorExpired: if changes after the cursor have been deleted because of their age.
    """
    if on_sqlite():
        cursor = Cursor(0, cursor.id)  # no row has another transaction
    page = _page(project, cursor, limit) if session is None else _page_of(session, project, cursor, limit)
    may_be_restored = page.oldest is None and cursor.transaction_id and not on_sqlite()
    if may_be_restored and next_transaction() <= cursor.transaction_id:
        # The cursor's transaction does not exist yet: the database was restored on another server. A dump
        # keeps the ids of rows, so that readers can continue by id.
        return changes_since(project, Cursor(0, cursor.id), limit=limit, session=session)
    if page.oldest is not None and page.oldest.kind == ChangeKind.PRUNED and cursor != START:
        raise CursorExpired(
            "Changes after this cursor are no longer kept. Read the sessions as they are now, and leave the "
            "cursor out to begin with the oldest change that is kept."
        )
    return ChangePage(page.changes, page.cursor, page.has_more)


class _FeedPart(NamedTuple):
    """As :class:`ChangePage`."""

    changes: list[ReadChange]
    cursor: Cursor
    has_more: bool
    oldest: ReadChange | None
    """The first change after the cursor, of any session or kind; None if there is none."""


def _page(project: UUID, cursor: Cursor, limit: int) -> _FeedPart:
    statement = _PAGE.format(**_conditions())
    changes = list(_changes(fetch_all(statement, [uuid_value(project), *cursor, limit + 1])))
    page = [change for change in changes if change.kind != ChangeKind.PRUNED][:limit]
    end = page[-1].cursor if page else cursor
    return _FeedPart(page, end, len(changes) > limit, changes[0] if changes else None)


def _page_of(session: UUID, project: UUID, cursor: Cursor, limit: int) -> _FeedPart:
    statement = _PAGE_OF_SESSION.format(**_conditions())
    values = [uuid_value(project), *cursor, MAX_SKIPPED, compact_uuid(session), limit + 1]
    rows = fetch_all(statement, values)
    if not rows:
        return _FeedPart([], cursor, has_more=False, oldest=None)
    rows.sort(key=lambda row: (row[-1], *row[:2]))
    oldest, *found, newest = _changes(row[:-1] for row in rows)
    if len(found) > limit:
        return _FeedPart(found[:limit], found[limit - 1].cursor, has_more=True, oldest=oldest)
    end = cursor if newest.kind == ChangeKind.PRUNED else newest.cursor
    return _FeedPart(found, end, rows[-1][-1] == MAX_SKIPPED, oldest)


def _conditions() -> dict[str, str]:
    settled = "" if on_sqlite() else _SETTLED
    return {"is_after": is_after("%s", "%s"), "settled": settled, "pruned": ChangeKind.PRUNED}


def is_after(transaction_id: str, id: str) -> str:
    """The SQL condition that a row of ``historyapp_change`` comes after a cursor.

    SQLite's index does not serve a comparison of pairs: it would read all changes of the project.
    """
    if on_sqlite():
        return f"historyapp_change.transaction_id = {transaction_id} AND historyapp_change.id > {id}"
    return f"(historyapp_change.transaction_id, historyapp_change.id) > ({transaction_id}, {id})"


def newest_cursor(project: UUID) -> Cursor:
    """The place after the newest change."""
    rows = fetch_all(_NEWEST.format(settled="" if on_sqlite() else _SETTLED), [uuid_value(project)])
    return Cursor(*rows[0]) if rows else START


def progress() -> int:
    """A number that differs if there may be new changes in any project. Reading it is cheap.

    On SQLite the number belongs to the thread's connection, and writes on that connection do not change it.
    """
    return int(fetch_all(_PROGRESS[connection.vendor], [])[0][0])


def next_transaction() -> int:
    """The next transaction number of this PostgreSQL server."""
    return int(fetch_all(_NEXT_TRANSACTION, [])[0][0])


def _changes(rows: Iterable[Sequence[Any]]) -> Iterable[ReadChange]:
    for transaction, id, kind, session, first, last, run, at in rows:
        yield ReadChange(
            Cursor(transaction, id),
            kind,
            read_compact_uuid(session),
            first,
            last,
            read_compact_uuid(run) if run else None,
            read_compact_time(at),
        )
