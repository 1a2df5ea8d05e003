"""The database itself refuses every kind of change to the log."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from historyapp.core.errors import Conflict
from historyapp.models import Entry, Project, RetentionPass
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import ask


@pytest.fixture
def entry(db: None) -> Entry:
    project = Project.objects.create(name="Alice's")
    append(project, create_session(project).pk, [ask("for ever")])
    return Entry.objects.get()


def test_the_model_refuses_with_a_clear_error(entry: Entry) -> None:
    for attempt in (entry.save, entry.delete, Entry.objects.all().delete):
        with pytest.raises(Conflict, match="never"):
            attempt()
    with pytest.raises(Conflict, match="never change"):
        Entry.objects.update(kind="review")


def test_the_database_refuses_changes_that_bypass_the_model(entry: Entry) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: Entry._base_manager.update(kind="review"),
        lambda: Entry._base_manager.filter(position=1)._raw_delete("default"),
        lambda: Model.save(entry, force_update=True),
        lambda: Entry.objects.bulk_create(
            [entry], update_conflicts=True, update_fields=["kind"], unique_fields=["session", "position"]
        ),
        lambda: execute("UPDATE historyapp_entry SET kind = 'review'"),
        lambda: execute("DELETE FROM historyapp_entry"),
    ]
    for attempt in attempts:
        with pytest.raises(DatabaseError, match="entries never change"), transaction.atomic():
            attempt()
    assert Entry.objects.get().kind == "model_input"


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no TRUNCATE")
def test_the_log_is_not_truncated(entry: Entry) -> None:
    RetentionPass.objects.create()
    execute("SET CONSTRAINTS ALL IMMEDIATE")  # otherwise pending checks make PostgreSQL refuse
    for statement in ("TRUNCATE historyapp_entry", "TRUNCATE historyapp_session CASCADE"):
        with pytest.raises(DatabaseError, match="entries never change"), transaction.atomic():
            execute(statement)
    assert Entry.objects.get() == entry


def test_an_entry_cannot_replace_another(entry: Entry) -> None:
    """PostgreSQL has no REPLACE: there a second entry of the same key is refused by the key."""
    columns = ", ".join(field.attname for field in Entry._meta.concrete_fields)
    put = f"INSERT INTO historyapp_entry ({columns}) SELECT {columns} FROM historyapp_entry"
    if connection.vendor == "sqlite":
        put = put.replace("INSERT", "REPLACE")
    with pytest.raises(DatabaseError), transaction.atomic():
        execute(put)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no REPLACE")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO historyapp_entry SELECT * FROM historyapp_entry",
        "REPLACE INTO historyapp_entry SELECT * FROM historyapp_entry",
        "INSERT OR IGNORE INTO historyapp_entry SELECT * FROM historyapp_entry",
        "INSERT INTO historyapp_entry SELECT * FROM historyapp_entry WHERE true"
        " ON CONFLICT DO UPDATE SET body = '{}'",
        "REPLACE INTO historyapp_entry"
        " (rowid, session_id, position, kind, created_at, body, metadata, tokens, totals)"
        " SELECT rowid, session_id, 2, kind, created_at, '{}', metadata, tokens, totals"
        " FROM historyapp_entry",
        "UPDATE OR REPLACE historyapp_entry SET body = '{}'",
        "DELETE FROM historyapp_entry",
    ],
)
def test_a_plain_connection_cannot_replace_an_entry(entry: Entry, statement: str, recursive: str) -> None:
    """A connection as the `sqlite3` shell opens it: the protection must not depend on its settings."""
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as plain:
        plain.execute(f"PRAGMA recursive_triggers = {recursive}")
        before = plain.execute("SELECT rowid, * FROM historyapp_entry").fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="entries never change"):
            plain.execute(statement)
        assert plain.execute("SELECT rowid, * FROM historyapp_entry").fetchall() == before
    assert len(before) == 1


def test_only_a_retention_pass_can_delete_entries(entry: Entry) -> None:
    RetentionPass.objects.create()
    with pytest.raises(DatabaseError, match="entries never change"), transaction.atomic():
        execute("UPDATE historyapp_entry SET kind = 'review'")
    execute("DELETE FROM historyapp_entry")
    assert not Entry.objects.exists()


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
