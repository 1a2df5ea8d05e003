"""Fixtures for tests of tables."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from historyapp import migrations
from tests.installation import migrated


@pytest.fixture(scope="session")
def templates(django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, str]]:
    """The names of databases on PostgreSQL, by the migration that made their tables last: copying is fast."""
    made: dict[str, str] = {}
    yield made
    with django_db_blocker.unblock():
        for name in made.values():
            run_on_server(f"DROP DATABASE {name}")


@pytest.fixture
def older(
    django_db_blocker: DjangoDbBlocker, tmp_path: Path, templates: dict[str, str]
) -> Iterator[Callable[[str], None]]:
    """Makes a new database, with the tables as a migration leaves them. The test uses it instead of ours."""
    ours = connection.settings_dict["NAME"]
    name = f"older_{uuid4().hex}"

    def make(migration: str) -> None:
        if connection.vendor == "sqlite":
            if is_recent(migration):
                shutil.copy(migrated() / "playhead.sqlite3", tmp_path / name)
            migrate_empty(str(tmp_path / name), migration)
            return
        if migration not in templates:
            template = f"template_{uuid4().hex}"
            run_on_server(f"CREATE DATABASE {template}")
            templates[migration] = template
            migrate_empty(template, migration)
            connection.close()
        run_on_server(f"CREATE DATABASE {name} TEMPLATE {templates[migration]}")
        connection.settings_dict["NAME"] = name

    with django_db_blocker.unblock():
        connection.close()
        try:
            yield make
        finally:
            connection.close()
            connection.settings_dict["NAME"] = ours
            if connection.vendor != "sqlite":
                run_on_server(f"DROP DATABASE IF EXISTS {name}")


def is_recent(migration: str) -> bool:
    """Whether to migrate back to it from the newest one takes less time than to make all tables."""
    newest = max(path.stem for path in Path(migrations.__path__[0]).glob("[0-9]*.py"))
    return int(newest[:4]) - int(migration[:4]) < 10


def migrate_empty(name: str, migration: str) -> None:
    """Connects to a database without rows, and makes its tables as a migration leaves them."""
    connection.settings_dict["NAME"] = name
    call_command("migrate", "historyapp", migration, verbosity=0)


def run_on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
