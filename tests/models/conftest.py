"""Fixtures for tests of tables."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.installation import migrated, older_tables_of
from tests.older_tables import run_on_server


@pytest.fixture
def older(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path: Path, templates: dict[str, str]
) -> Iterator[Callable[[str], None]]:
    """Makes a database with the tables of a migration of ``tests.older_tables``. The test uses it instead of
    ours."""
    ours = connection.settings_dict["NAME"]
    name = f"older_{uuid4().hex}"

    def make(migration: str) -> None:
        if connection.vendor == "sqlite":
            shutil.copy(older_tables_of(migrated()) / migration, tmp_path / name)
            connection.settings_dict["NAME"] = str(tmp_path / name)
        else:
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
