"""On PostgreSQL, a database of the version before is split into partitions and keeps all that it has."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError, connection, transaction

from historyapp.models import Entry, Episode, Session, Snapshot
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from historyapp.services.statements import ENTRY_COLUMNS
from tests.examples import thorough
from tests.models.older_rows import insert_episodes, insert_project, insert_sessions, insert_snapshots
from tests.services.drafts import act, ask, ok

pytestmark = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no partitions")

BEFORE, AFTER = "0022_tagged_sessions", "0023_partitions"
LATER = "0055_due_by_project"
PARTITIONED = ("historyapp_entry", "historyapp_episode", "historyapp_snapshot")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
RULES = """
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %s::regclass AND contype <> 'n'
    UNION ALL SELECT indexrelid::regclass::text, replace(pg_get_indexdef(indexrelid), ' ONLY ', ' ')
    FROM pg_index WHERE indrelid = %s::regclass
    UNION ALL SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
    WHERE tgrelid = %s::regclass AND NOT tgisinternal
    UNION ALL SELECT attname, attnum || format_type(atttypid, atttypmod) || attnotnull || attstorage::text
    FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0
    ORDER BY 1, 2"""
"""Everything that a table has but rows: constraints, indexes, triggers, columns."""


@pytest.fixture
def filled(older: Callable[[str], None]) -> None:
    """A database that the version before made, with rows."""
    older(BEFORE)
    add_rows()


def add_rows(sessions: int = 40, entries: int = 10) -> None:
    project = insert_project("Alice's")
    made = [Session(project=project, title=str(number)) for number in range(sessions)]
    insert_sessions(made)
    pairs = [(session, position) for session in made for position in range(1, entries + 1)]
    Entry.objects.bulk_create(
        Entry(
            session=session,
            position=position,
            kind="model_input",
            body={"content": "é" * position},
            created_at=MOMENT,
        )
        for session, position in pairs
    )
    insert_episodes(
        [
            Episode(
                session=session,
                anchor=position,
                number=position,
                first_position=position,
                last_position=position,
                status="success",
                tool_names=[],
                tokens=0,
                started_at=MOMENT,
                total_tokens=0,
                total_errors=0,
            )
            for session, position in pairs
        ]
    )
    insert_snapshots(
        [
            Snapshot(
                session=session,
                position=position,
                policy="budgeted",
                format="plain",
                manifest={},
                estimated=1,
            )
            for session, position in pairs[::10]
        ]
    )


def fetch(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def execute(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def migrate(*migration: str) -> None:
    call_command("migrate", "historyapp", *migration, verbosity=0)


@pytest.mark.usefixtures("filled")
def test_every_row_column_constraint_index_and_trigger_stays() -> None:
    def everything(table: str) -> tuple[list[Any], set[Any]]:
        rows = fetch(f"SELECT t::text FROM {table} t ORDER BY 1")
        return rows, set(fetch(RULES, table, table, table, table))

    before = {table: everything(table) for table in PARTITIONED}
    assert len(before["historyapp_entry"][0]) == 400
    migrate(AFTER)
    for table in PARTITIONED:
        rows, rules = everything(table)
        assert rows == before[table][0]
        gone = {(name, text.replace("(id)", "(id, session_id)")) for name, text in before[table][1] - rules}
        assert gone <= rules, "only the key of snapshots has the session in addition"
        assert rules - before[table][1] == gone


@pytest.mark.usefixtures("filled")
def test_rows_guards_and_privileges_are_kept_and_the_reverse_migration_is_refused() -> None:
    """All in one test, because the migration takes half a second."""
    with reader() as role:
        migrate(AFTER)
        check_privileges(role)
    check_that_the_rows_are_spread()
    check_that_entries_are_guarded()
    with pytest.raises(CommandError, match="To go back to an older version, restore a backup"):
        migrate(BEFORE)
    assert fetch("SELECT count(*) FROM historyapp_entry") == [(400,)]


@contextmanager
def reader() -> Iterator[str]:
    """A role of the server that may read some of the tables."""
    role = f"reader_{uuid4().hex}"
    execute(f"CREATE ROLE {role}")
    execute(f"GRANT SELECT, INSERT ON historyapp_entry TO {role} WITH GRANT OPTION")
    execute("GRANT SELECT ON historyapp_episode TO PUBLIC")
    try:
        yield role
    finally:
        execute(f"DROP OWNED BY {role}")
        execute(f"DROP ROLE {role}")


def check_privileges(role: str) -> None:
    granted = {
        ("historyapp_entry", "SELECT WITH GRANT OPTION"): True,
        ("historyapp_entry", "INSERT WITH GRANT OPTION"): True,
        ("historyapp_entry", "UPDATE"): False,
        ("historyapp_episode", "SELECT"): True,
        ("historyapp_episode", "SELECT WITH GRANT OPTION"): False,
        ("historyapp_snapshot", "SELECT"): False,
    }
    for what, expected in granted.items():
        assert fetch("SELECT has_table_privilege(%s, %s, %s)", role, *what) == [(expected,)], what


def check_that_the_rows_are_spread() -> None:
    for table in PARTITIONED:
        parts = fetch(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", table
        )
        assert len(parts) == 8
        counts = dict(fetch(f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1"))
        assert 5 <= len(counts) <= 8, "40 sessions rarely leave one empty"
        assert max(counts.values()) < sum(counts.values()) / 2


def check_that_entries_are_guarded() -> None:
    (part, session), *_ = fetch("SELECT tableoid::regclass::text, session_id FROM historyapp_entry LIMIT 1")
    refused = [
        f"UPDATE {part} SET tokens = 7",
        f"DELETE FROM {part}",
        f"TRUNCATE {part}",
        "TRUNCATE historyapp_entry",
        f"INSERT INTO {part} SELECT * FROM {part} "
        "ON CONFLICT (session_id, position) DO UPDATE SET tokens = 7",
    ]
    for statement in refused:
        with pytest.raises(DatabaseError, match="entries never change"), transaction.atomic():
            fetch(statement)
    delete = "DELETE FROM historyapp_session WHERE id = %s"
    with transaction.atomic():
        execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError), transaction.atomic():
            execute(delete, session)


@pytest.mark.parametrize("version", [LATER, thorough(BEFORE)])
def test_rows_and_guards_are_kept_up_to_the_newest_version(
    older: Callable[[str], None], version: str
) -> None:
    older(version)
    add_rows()
    migrate()
    check_that_the_rows_are_spread()
    check_that_entries_are_guarded()
    assert fetch("SELECT count(*) FROM historyapp_entry") == [(400,)]


@pytest.mark.usefixtures("filled")
def test_a_started_append_ends_before_its_tables_are_locked() -> None:
    """Otherwise the append and the migration would wait for each other, and PostgreSQL would end one."""
    (session,) = fetch("SELECT session_id FROM historyapp_entry LIMIT 1")[0]
    writer = connection.get_new_connection(connection.get_connection_params())
    writer.execute("SELECT 1 FROM historyapp_session WHERE id = %s FOR UPDATE", [session])
    with ThreadPoolExecutor(1) as pool:
        appended = pool.submit(append_once_a_lock_is_awaited, writer, session)
        migrate(AFTER)
        appended.result()
    assert fetch("SELECT count(*) FROM historyapp_entry") == [(401,)]


def append_once_a_lock_is_awaited(writer: Any, session: UUID) -> None:
    waits = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE NOT granted AND datname = current_database()"
    )
    copied = ", ".join(ENTRY_COLUMNS[2:])
    deadline = time.monotonic() + 20
    with writer:
        while writer.execute(waits).fetchone() == (0,):
            assert time.monotonic() < deadline, "the migration waits for no lock"
            time.sleep(0.01)
        writer.execute(
            f"INSERT INTO historyapp_entry (session_id, position, {copied}) "
            f"SELECT session_id, 11, {copied} FROM historyapp_entry WHERE session_id = %s AND position = 10",
            [session],
        )


def test_an_append_reads_and_writes_the_partitions_of_its_session_alone(db: None) -> None:
    project = insert_project("Alice's")
    session = create_session(project)
    append(project, session.pk, [ask("go"), act(), ok()])
    for model in (Entry, Episode):
        places = fetch(f"SELECT DISTINCT tableoid FROM {model._meta.db_table}")
        assert len(places) == 1
    with connection.cursor() as cursor:
        cursor.execute(
            "EXPLAIN UPDATE historyapp_episode SET tokens = 1 WHERE session_id = %s AND anchor = 1",
            [session.pk],
        )
        plan = "\n".join(row for (row,) in cursor.fetchall())
    assert plan.count("Scan") == 1, plan
