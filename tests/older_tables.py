"""Keeps databases with the tables of earlier versions and without rows. Tests upgrade copies of them.

One pass through the migrations makes them all. A pass takes seconds, because Django makes the classes of most
models again after each change of a table.
"""

import gc
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import django
import pytest
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection
from django.db.models import Field

MIGRATIONS = (
    "0019_caps_of_sessions_and_keys",
    "0022_tagged_sessions",
    "0031_origins_of_names",
    "0051_summary_instruction",
    "0055_due_by_project",
)
"""The newest ones of these versions, in their order."""


def deconstruct_fields_once(patch: pytest.MonkeyPatch) -> None:
    """Makes migrations faster by a quarter. A pass copies 42,000 fields for the classes of models.

    Django makes each copy by the arguments of the field. No migration changes a field: it makes another one.
    """

    def clone(field: Any) -> Any:
        arguments = vars(field).get("_arguments")
        if arguments is None:
            _, _, *arguments = field.deconstruct()
            vars(field)["_arguments"] = arguments
        positional, named = arguments
        return type(field)(*positional, **named)

    patch.setattr(Field, "clone", clone)


def keep_file(folder: Path, migration: str) -> None:
    """Copies the SQLite database of this connection into a folder."""
    with closing(sqlite3.connect(folder / migration)) as copy:
        connection.connection.backup(copy)


def keep_template(names: dict[str, str], migration: str) -> None:
    """Copies the PostgreSQL database of this connection into a new one and notes its name, the first time."""
    if migration in names:
        return
    names[migration] = f"template_{uuid4().hex}"
    run_on_server(f"CREATE DATABASE {names[migration]} TEMPLATE {connection.settings_dict['NAME']}")


def run_on_server(statement: str) -> None:
    """Carries out a statement on databases, which nobody may be connected to."""
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def kept(keep: Callable[[str], None]) -> Iterator[None]:
    """Calls a function after each migration of :data:`MIGRATIONS` that a command applies meanwhile."""
    usual = migrate.Command.migration_progress_callback

    def progress(command: Any, action: str, migration: Any = None, fake: bool = False) -> None:
        usual(command, action, migration, fake)
        if action == "apply_success" and (migration.app_label, migration.name) in wanted:
            keep(migration.name)

    wanted = {("historyapp", name) for name in MIGRATIONS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate.Command, "migration_progress_callback", progress)
        yield


def main(folder: Path) -> None:
    """Makes the tables of the SQLite database in ``PLAYHEAD_HOME``, and keeps the older ones in a folder.

    Checks are skipped: they load all views.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
    django.setup()
    gc.disable()  # migrations make thousands of classes, and collecting takes a fifth of their time
    folder.mkdir()
    with kept(lambda migration: keep_file(folder, migration)), pytest.MonkeyPatch.context() as patch:
        deconstruct_fields_once(patch)
        call_command("migrate", verbosity=0, skip_checks=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
