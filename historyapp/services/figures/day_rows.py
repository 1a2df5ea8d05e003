"""Updates the rows of ``historyapp.models.day_figures`` and deletes those that become zero."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from historyapp.core.day_figures import DayFigures, FiguresKey
from historyapp.models.fields import uuid_value

SessionFigures = dict[FiguresKey, DayFigures]
"""The figures of one session."""
AgentFigures = dict[tuple[UUID, str, FiguresKey], DayFigures]
"""The figures of projects, by project and agent."""

_KEY = FiguresKey._fields
_FIGURES = DayFigures._fields


def _statements(table: str, key: Sequence[str]) -> tuple[str, str]:
    """The SQL that adds figures to a row, and the SQL that deletes the row if all its figures are zero."""
    columns = (*key, *_FIGURES)
    values = ", ".join(["%s"] * len(columns))
    sums = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _FIGURES)
    condition = " AND ".join(f"{name} = %s" for name in key)
    empty = " AND ".join(f"{name} = 0" for name in _FIGURES)
    add = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) "  # noqa: S608
    return (
        f"{add}ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sums}",
        f"DELETE FROM {table} WHERE {condition} AND {empty}",  # noqa: S608
    )


_SESSION_SQL = _statements("historyapp_sessionday", ("session_id", *_KEY))
_PROJECT_SQL = _statements("historyapp_projectday", ("project_id", "agent", *_KEY))


def add_to_days(sessions: Mapping[UUID, SessionFigures], agents: AgentFigures) -> None:
    """Adds figures to the rows of sessions and of projects, within the caller's transaction."""
    session_rows = (((id,), key, figures) for id, added in sessions.items() for key, figures in added.items())
    _add(_SESSION_SQL, session_rows)
    _add(
        _PROJECT_SQL, (((project, agent), key, figures) for (project, agent, key), figures in agents.items())
    )


def _add(statements: tuple[str, str], rows: Iterable[tuple[tuple[Any, ...], FiguresKey, DayFigures]]) -> None:
    # Sorted, because two processes that update the same rows in different orders could deadlock.
    changed = sorted((row for row in rows if row[2]), key=lambda row: row[:2])
    if not changed:
        return
    add, delete_empty = statements
    keys = [[*map(_sql_value, owner), *map(_sql_value, key)] for owner, key, _ in changed]
    with connection.cursor() as cursor:
        cursor.executemany(
            add, [[*row_key, *figures] for row_key, (_, _, figures) in zip(keys, changed, strict=True)]
        )
        reduced = [
            row_key for row_key, (_, _, figures) in zip(keys, changed, strict=True) if min(figures) < 0
        ]
        if reduced:
            cursor.executemany(delete_empty, reduced)


def _sql_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return uuid_value(value)
    if isinstance(value, (str, bool)):
        return value
    return connection.ops.adapt_datefield_value(value)
