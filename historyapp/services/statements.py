"""The SQL of an append's writes. The SQL of its reads is in ``historyapp.models.sql``.

The ORM builds the SQL of a query each time, which takes several times as long as running it. A test checks
the column lists against the models.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from historyapp.core.entries import Entry
from historyapp.core.json import dump_json, dump_plain, load_dumped
from historyapp.core.projection import Step, Totals
from historyapp.meters import count_entries
from historyapp.models import CompressionItem, Session
from historyapp.models.episodes import tool_of
from historyapp.models.fields import as_uuid, compact_time, compact_uuid, pack_all, uuid_value
from historyapp.models.run_sql import run_sql, run_sql_for_each
from historyapp.models.sessions import SORTED_COLUMNS
from historyapp.models.sql import as_aware, loaded
from historyapp.models.vendor import on_sqlite

ENTRY_COLUMNS = (
    "session_id", "position", "kind", "created_at", "body", "metadata", "tokens", "totals",
)  # fmt: skip
EPISODE_COLUMNS = (
    "session_id", "anchor", "number", "first_position", "last_position", "status", "tool_names", "tool",
    "input_preview", "thought_preview", "call_preview", "result_preview", "tokens", "started_at",
    "finished_at", "total_tokens", "total_errors", "unpaired", "unanswered", "kind", "target",
    "likely_failure", "error_line", "total_likely_failures", "turn", "turn_first", "compactions",
    "kind_totals",
)  # fmt: skip
TAIL_COLUMNS = (
    "head", "last_entry_at", "status", "tail", "steps", "errors", "tokens", "cost", "revision",
    "compression_due", "likely_failures", "duration", "shown_tokens", "money",
    "cost_is_minimum", "strip",
)  # fmt: skip
INDEXED_COLUMNS = tuple([column for column in TAIL_COLUMNS if column in SORTED_COLUMNS])
"""The columns of ``TAIL_COLUMNS`` by which lists are sorted. Each has an index."""
LOCKED_COLUMNS = (
    "id", "project_id", "status", "revision", "head", "tail", "created_at", "compress_at",
    "compress_at_tokens", "compression_due", "model", "forked_from_id", "fork_position", "tail_start",
    "strip", *INDEXED_COLUMNS,
)  # fmt: skip
"""The columns of the session that an append needs. Other columns are loaded on first use."""

CHANGE_COLUMNS = (
    "transaction_id", "project_id", "session_id", "kind", "first_position", "last_position", "run_id", "at",
)  # fmt: skip
ITEM_COLUMNS = ("state", "claim", "claimed_until", "error", "summary_id", "text", "tokens_after", "cost")
"""The columns that the result of a compression run's item changes."""


def _insert_sql(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608


def _assignments(columns: Sequence[str]) -> str:
    return ", ".join(f"{column} = %s" for column in columns)


_INSERT_ENTRY = _insert_sql("historyapp_entry", ENTRY_COLUMNS)
_INSERT_EPISODE = _insert_sql("historyapp_episode", EPISODE_COLUMNS)
_UPDATE_EPISODE = (
    f"UPDATE historyapp_episode SET {_assignments(EPISODE_COLUMNS[2:])}, excerpt = NULL "  # noqa: S608
    "WHERE session_id = %s AND anchor = %s"
)
_UPSERT_EPISODE = f"{_INSERT_EPISODE} ON CONFLICT (session_id, anchor) DO UPDATE SET " + ", ".join(
    [*(f"{column} = excluded.{column}" for column in EPISODE_COLUMNS[2:]), "excerpt = NULL"]
)
"""For a partitioned table, PostgreSQL takes longer to plan an UPDATE than to run it. An INSERT needs hardly
any planning."""
_STORE_EXCERPT = (
    "UPDATE historyapp_episode SET excerpt = %s WHERE session_id = %s AND anchor = %s AND excerpt IS NULL"
)
_FIRST_ENTRY_AT = (
    "(SELECT created_at FROM historyapp_entry "
    "WHERE session_id = historyapp_session.id AND position = historyapp_session.fork_position + 1)"
)
_SELECT_SESSION = (
    f"SELECT {', '.join(LOCKED_COLUMNS)}, {_FIRST_ENTRY_AT} FROM historyapp_session "  # noqa: S608
    "WHERE id = %s AND project_id = %s"
)

_INSERT_CHANGE = _insert_sql("historyapp_change", CHANGE_COLUMNS)
_TRANSACTION_ID = "pg_current_xact_id()::text::bigint"
_UPDATE_ITEM = f"UPDATE historyapp_compressionitem SET {_assignments(ITEM_COLUMNS)} WHERE id = %s"  # noqa: S608


def select_session(project_id: UUID, session_id: UUID) -> Session | None:
    """The session row, locked until the transaction ends; None if the project has no such session.

    The lock excludes other writers of the session, and its deletion.
    """
    # SQLite has no row locks: our transactions lock the whole database from their beginning.
    lock = "" if on_sqlite() else " FOR NO KEY UPDATE"
    rows = run_sql(_SELECT_SESSION + lock, (uuid_value(session_id), uuid_value(project_id)))
    if not rows:
        return None
    _, _, status, revision, head, tail, created_at, *others, first_entry_at = rows[0]
    tail, created_at = load_dumped(tail), as_aware(created_at)
    values = (session_id, project_id, status, revision, head, tail, created_at, *others)
    session = loaded(Session, LOCKED_COLUMNS, values)
    session.first_entry_at = first_entry_at and as_aware(first_entry_at)
    session.forked_from_id = session.forked_from_id and as_uuid(session.forked_from_id)
    return session


class NewChange(NamedTuple):
    """See :class:`historyapp.models.Change`."""

    project_id: UUID
    session_id: UUID
    kind: str
    first_position: int | None = None
    last_position: int | None = None
    run_id: UUID | None = None


class EntryRow(NamedTuple):
    """An entry, the running totals after it, and its JSON."""

    entry: Entry
    totals: Totals
    body: str
    metadata: str


def insert_entries(
    session_id: UUID, entries: Sequence[EntryRow], bodies: Sequence[str | bytes] | None = None
) -> None:
    """Adds entries, and counts them after the commit. ``bodies``: the bodies, if they are already packed."""
    session = uuid_value(session_id)
    times = {row.entry.created_at for row in entries}  # most batches have one time
    stored_times = dict(zip(times, map(_stored_time, times), strict=True))
    packed = pack_all([row.body for row in entries]) if bodies is None else bodies
    rows = [
        (
            session,
            entry.position,
            entry.body.kind,
            stored_times[entry.created_at],
            body,
            metadata,
            entry.tokens,
            dump_plain(totals.dump()),
        )
        for (entry, totals, _, metadata), body in zip(entries, packed, strict=True)
    ]
    run_sql_for_each(_INSERT_ENTRY, rows)
    transaction.on_commit(partial(count_entries, len(rows)))


def insert_episodes(session_id: UUID, steps: Iterable[Step]) -> None:
    """Adds the rows of steps."""
    session = uuid_value(session_id)
    run_sql_for_each(_INSERT_EPISODE, [(session, step.anchor, *_episode_values(step)) for step in steps])


def update_episode(session_id: UUID, step: Step) -> None:
    """Writes all columns of a step's row, and removes its excerpt: it is computed when it is next read."""
    key, values = (uuid_value(session_id), step.anchor), _episode_values(step)
    if on_sqlite():
        run_sql(_UPDATE_EPISODE, (*values, *key))
    else:
        run_sql(_UPSERT_EPISODE, (*key, *values))


def store_excerpts(excerpts: Iterable[tuple[UUID, int, str | bytes]]) -> None:
    """Stores the excerpts of ended steps whose rows have none. Later results do not change them.

    Args:
        excerpts: of each step, the session and the anchor of its row, and the packed excerpt. Two
            transactions that store the same excerpts need the same order.
    """
    rows = [(packed, uuid_value(session_id), anchor) for session_id, anchor, packed in excerpts]
    run_sql_for_each(_STORE_EXCERPT, rows)


def indexed_values(session: Session) -> tuple[int, ...]:
    """The values of ``INDEXED_COLUMNS``."""
    return tuple([getattr(session, column) for column in INDEXED_COLUMNS])


def update_session(session: Session, stored: Sequence[int]) -> None:
    """Writes the columns of the session row that an append changes.

    Args:
        stored: :func:`indexed_values` before the append. Equal values are not written again: SQLite would
            write a page of their index, even for the same value.
    """
    new = session.__dict__
    unchanged = tuple([new[column] == value for column, value in zip(INDEXED_COLUMNS, stored, strict=True)])
    columns, statement = _session_update(unchanged)
    values = {
        **new,
        "last_entry_at": _stored_time(session.last_entry_at),
        "tail": dump_json(session.tail),
    }
    run_sql(statement, (*[values[column] for column in columns], uuid_value(session.pk)))


@lru_cache(64)
def _session_update(unchanged: tuple[bool, ...]) -> tuple[tuple[str, ...], str]:
    """The columns to write, and the statement. ``unchanged``: which of ``INDEXED_COLUMNS`` to leave out."""
    omitted = {column for column, is_same in zip(INDEXED_COLUMNS, unchanged, strict=True) if is_same}
    columns = tuple([column for column in TAIL_COLUMNS if column not in omitted])
    return columns, f"UPDATE historyapp_session SET {_assignments(columns)} WHERE id = %s"  # noqa: S608


def insert_change(change: NewChange) -> None:
    """Adds a change with the id of the current transaction."""
    row = (
        uuid_value(change.project_id),
        compact_uuid(change.session_id),
        change.kind,
        change.first_position,
        change.last_position,
        change.run_id and compact_uuid(change.run_id),
        compact_time(datetime.now(UTC)),
    )
    run_sql(_insert_change_sql(), row)


@cache
def _insert_change_sql() -> str:
    return _INSERT_CHANGE.replace("%s", "0" if on_sqlite() else _TRANSACTION_ID, 1)


def update_items(items: Iterable[CompressionItem]) -> None:
    """Writes the results of items whose claims have ended."""
    rows = [
        (
            item.state,
            None,
            None,
            item.error,
            item.summary_id and uuid_value(item.summary_id),
            None if item.text is None else dump_json(item.text),
            item.tokens_after,
            item.cost,
            item.pk,
        )
        for item in items
    ]
    run_sql_for_each(_UPDATE_ITEM, rows)


def _episode_values(step: Step) -> tuple[Any, ...]:
    return (
        step.number,
        step.first_position,
        step.last_position,
        step.status,
        dump_plain(step.tool_names),
        tool_of(step.tool_names),
        step.input_preview,
        step.thought_preview,
        step.call_preview,
        step.result_preview,
        step.tokens,
        _stored_time_from_iso(step.started_at),
        step.finished_at and _stored_time_from_iso(step.finished_at),
        step.total_tokens,
        step.total_errors,
        step.unpaired,
        len(step.pending),
        step.kind,
        step.target,
        step.likely_failure,
        step.error_line,
        step.total_likely_failures,
        step.turn,
        step.turn_first,
        step.compactions,
        dump_plain(step.kind_totals),
    )


_OFFSET = "+00:00"


def _stored_time(value: datetime) -> Any:
    """A time in the form that the database driver accepts."""
    if on_sqlite() and value.tzinfo is UTC:
        return str(value).removesuffix(_OFFSET)  # the same text as Django's, ten times as fast
    return connection.ops.adapt_datetimefield_value(value)


@lru_cache(16)
def _stored_time_from_iso(value: str) -> Any:
    if on_sqlite() and value.endswith(_OFFSET):
        return value.removesuffix(_OFFSET).replace("T", " ")
    return connection.ops.adapt_datetimefield_value(datetime.fromisoformat(value))
