"""Fixtures for tests of tables."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker


@pytest.fixture
def older(django_db_blocker: DjangoDbBlocker, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Makes a new database, with the tables as a migration leaves them. The test uses it instead of ours."""
    ours, name = connection.settings_dict["NAME"], f"older_{uuid4().hex}"
    on_sqlite = connection.vendor == "sqlite"

    def migrate_to(migration: str) -> None:
        call_command("migrate", "historyapp", migration, verbosity=0)

    with django_db_blocker.unblock():
        connection.close()
        if not on_sqlite:
            run_on_server(f"CREATE DATABASE {name}")
        connection.settings_dict["NAME"] = str(tmp_path / name) if on_sqlite else name
        try:
            yield migrate_to
        finally:
            connection.close()
            connection.settings_dict["NAME"] = ours
            if not on_sqlite:
                run_on_server(f"DROP DATABASE {name}")


def run_on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
