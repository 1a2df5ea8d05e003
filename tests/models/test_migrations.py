"""The migrations make the tables that the models describe, and what they may do to large databases."""

import pytest
from django.core.management import call_command
from django.db.migrations import Migration, RunSQL
from django.db.migrations.loader import MigrationLoader

FIRST = "0072"
"""Earlier migrations have run in most databases."""


@pytest.mark.django_db
def test_makemigrations_has_nothing_to_propose() -> None:
    """Otherwise the next one that somebody writes would contain a change that is not theirs."""
    call_command("makemigrations", "historyapp", check_changes=True, dry_run=True, verbosity=0)


def changes_rows(migration: Migration) -> bool:
    statements = [operation.sql for operation in migration.operations if isinstance(operation, RunSQL)]
    return any(str(statement).startswith(("UPDATE", "DELETE")) for statement in statements)


def test_rows_are_not_changed_in_the_transaction_that_changes_a_table() -> None:
    """Until its end, PostgreSQL lets nobody read the table."""
    migrations = MigrationLoader(None).disk_migrations
    ours = [migration for (app, _), migration in migrations.items() if app == "historyapp"]
    checked = [each for each in ours if each.name >= FIRST and changes_rows(each)]
    assert "0073_minimum_costs_of_old_sessions" in [migration.name for migration in checked]
    for migration in checked:
        assert all(isinstance(operation, RunSQL) for operation in migration.operations), migration.name
