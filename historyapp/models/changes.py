"""What has changed in the sessions of a project, in order. Who wants to know what happened reads it here.

Each change is a row that its transaction adds. A transaction on PostgreSQL may commit after another one that
took a later number, so numbers alone would skip its rows. Readers therefore order changes by transaction, and
wait for those of transactions that began before one that still runs. SQLite runs one writer at a time, so
there the numbers are in order.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, models
from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.models.fields import as_uuid, on_sqlite, uuid_value
from historyapp.models.projects import Project
from historyapp.models.sql import as_aware, fetch_all
from historyapp.wire.problems import CursorExpired

MOST_CHANGES = 1000
"""Changes that one read looks at."""
_COLUMNS = "transaction_id, id, kind, session_id, first_position, last_position, run_id, at"
_PAGE = (
    f"SELECT {_COLUMNS} FROM historyapp_change WHERE project_id = %s "  # noqa: S608
    "AND (transaction_id, id) > (%s, %s){settled} ORDER BY transaction_id, id LIMIT %s"
)
_NEWEST = (
    "SELECT transaction_id, id FROM historyapp_change WHERE project_id = %s{settled} "
    "ORDER BY transaction_id DESC, id DESC LIMIT 1"
)
_SETTLED = " AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_BEGUN = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_PROGRESS = {
    "sqlite": "PRAGMA data_version",
    "postgresql": "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
}
_MOST_DIGITS = 18


class ChangeKind(models.TextChoices):
    """What changed; the values are the kinds of the API's events."""

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
    """Stands for the changes before it, which are no longer kept. Readers never see it."""


class Change(models.Model):
    """One change that one transaction made to one session."""

    transaction_id = models.BigIntegerField(default=0)
    """The number of the transaction on PostgreSQL; 0 on SQLite."""
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    session_id = models.UUIDField()
    """No foreign key: the row stays when the session is deleted."""
    kind = models.CharField(max_length=16)
    first_position = models.PositiveIntegerField(null=True)
    last_position = models.PositiveIntegerField(null=True)
    """Of the entries that were appended. Of other changes neither is set."""
    run_id = models.UUIDField(null=True)
    """The compression run."""
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = (models.Index(fields=("project", "transaction_id", "id"), name="change_in_order"),)

    def __str__(self) -> str:
        return f"{self.kind} of {self.session_id}"


class Cursor(NamedTuple):
    """A place between two changes of a project."""

    transaction_id: int
    id: int

    def __str__(self) -> str:
        return f"{self.transaction_id}-{self.id}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Reads what ``str()`` has written.

        Raises:
            Invalid: when it is something else.
        """
        parts = text.split("-")
        are_numbers = all(part.isdecimal() and part.isascii() and len(part) <= _MOST_DIGITS for part in parts)
        if len(parts) == 2 and are_numbers:
            return cls(int(parts[0]), int(parts[1]))
        raise Invalid(
            "This is not a cursor of events. Send the cursor of an event, or next of a page, unchanged; "
            "leave it out to start from the beginning."
        )


START = Cursor(0, 0)
"""Before the oldest change."""


class ReadChange(NamedTuple):
    """A change as readers get it."""

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
    """After the changes that have been read, those of other sessions included."""
    has_more: bool


def changes_since(
    project: UUID, cursor: Cursor = START, *, limit: int = MOST_CHANGES, session: UUID | None = None
) -> ChangePage:
    """The changes of a project after a cursor, oldest first. None is ever skipped.

    Args:
        limit: rows that are read.
        session: only those of this session. The others are read too, so a page may be empty before the end.

    Raises:
        CursorExpired: when changes after the cursor have been deleted because they were too old.
    """
    statement = _PAGE.format(settled="" if on_sqlite() else _SETTLED)
    read = list(_changes(fetch_all(statement, [uuid_value(project), *cursor, limit + 1])))
    if not read and cursor.transaction_id and _is_of_other_database(cursor):
        return changes_since(project, Cursor(0, cursor.id), limit=limit, session=session)
    if read and read[0].kind == ChangeKind.PRUNED and cursor != START:
        raise CursorExpired(
            "Changes after this cursor are no longer kept. Read the sessions as they are now, and leave the "
            "cursor out to begin with the oldest change that is kept."
        )
    page = [change for change in read if change.kind != ChangeKind.PRUNED][:limit]
    wanted = page if session is None else [change for change in page if change.session == session]
    return ChangePage(wanted, page[-1].cursor if page else cursor, len(read) > limit)


def newest_cursor(project: UUID) -> Cursor:
    """The place after the newest change."""
    rows = fetch_all(_NEWEST.format(settled="" if on_sqlite() else _SETTLED), [uuid_value(project)])
    return Cursor(*rows[0]) if rows else START


def progress() -> int:
    """A number that differs whenever there may be new changes, in any project. It costs next to nothing.

    On SQLite the number is of the thread's connection, and its own writes do not change it.
    """
    return int(fetch_all(_PROGRESS[connection.vendor], [])[0][0])


def next_transaction() -> int:
    """The number that no transaction of this PostgreSQL has reached yet."""
    return int(fetch_all(_BEGUN, [])[0][0])


def _is_of_other_database(cursor: Cursor) -> bool:
    """Whether PostgreSQL has no such transaction yet: the database was restored from a dump into another one.

    A dump keeps the numbers of rows, so that readers go on by them.
    """
    return not on_sqlite() and next_transaction() <= cursor.transaction_id


def _changes(rows: Iterable[Sequence[Any]]) -> Iterable[ReadChange]:
    for transaction, id, kind, session, first, last, run, at in rows:
        yield ReadChange(
            Cursor(transaction, id),
            kind,
            as_uuid(session),
            first,
            last,
            as_uuid(run) if run else None,
            as_aware(at),
        )
