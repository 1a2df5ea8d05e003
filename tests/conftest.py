"""Fixtures for every test."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connection
from hypothesis import settings
from pytest_django.plugin import DjangoDbBlocker

from historyapp import wsgi  # noqa: F401  # it sets a limit when it is imported
from historyapp.core import language
from historyapp.models import changes
from historyapp.models.database_clock import CLOCK
from historyapp.services import long_transactions
from historyapp.static import StaticFilesMiddleware
from tests.emptying import empty_tables
from tests.examples import register_profiles
from tests.installation import light_processes, migrated
from tests.older_tables import deconstruct_fields_once, keep_template, kept, run_on_server

register_profiles()
settings.load_profile("ci")
# The default is the same without the extra: sentences by rules. Tests of the model name its package.
language.SAME_MODELS.clear()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Uses a SQLite file in WAL mode, as in production. Threads cannot share Django's in-memory database."""
    if connection.vendor == "sqlite":
        name = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
        connection.settings_dict["TEST"]["NAME"] = name


@pytest.fixture(scope="session")
def templates(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, str]]:
    """On PostgreSQL, the names of the databases of ``tests.older_tables`` by their migrations.

    They are made while the test database is: ``django_db_setup`` needs this fixture first.
    """
    names = dict[str, str]()
    if connection.vendor == "sqlite" or not any(
        "older" in getattr(item, "fixturenames", ()) for item in request.session.items
    ):
        yield names
        return
    with kept(lambda migration: keep_template(names, migration)):
        yield names
    with django_db_blocker.unblock():
        for name in names.values():
            run_on_server(f"DROP DATABASE {name}")


@pytest.fixture(scope="session")
def until_set_up(templates: dict[str, str]) -> pytest.MonkeyPatch:
    """Changes how Django sets up the test database: ``django_db_setup`` undoes them."""
    patch = pytest.MonkeyPatch()
    # A text of all rows, which no test needs.
    patch.setattr(type(connection.creation), "serialize_db_to_string", lambda _: "")
    deconstruct_fields_once(patch)
    if connection.vendor == "sqlite":  # it would make tables, which are copied
        patch.setattr("django.core.management.call_command", lambda *_, **__: None)
    return patch


@pytest.fixture(scope="session")
def django_db_setup(
    until_set_up: pytest.MonkeyPatch, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """On SQLite, copies the tables that the migrations made: each process of a run would make them again."""
    until_set_up.undo()
    if connection.vendor == "sqlite":
        # Immutable: SQLite then makes no write-ahead log, which another process could find and lose.
        file = f"{(migrated() / 'playhead.sqlite3').as_uri()}?immutable=1"
        with django_db_blocker.unblock(), closing(sqlite3.connect(file, uri=True)) as made:
            made.backup(connection.connection)


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_fast() -> Iterator[None]:
    """Replaces Django's command ``flush`` after a test that commits (``tests.emptying``)."""

    def call_command(name: str, **_: Any) -> None:
        assert name == "flush"
        empty_tables()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.test.testcases.call_command", call_command)
        yield


@pytest.fixture(scope="session", autouse=True)
def _jumps_of_tests_stay_in_their_process() -> Iterator[None]:
    """Tests set the clock. The processes of tests share a data folder, and would tell each other of that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CLOCK, "_is_read", True)
        patch.setattr(CLOCK, "_write", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_read_once() -> Iterator[None]:
    """Reads and hashes static files once. Otherwise the middleware of every test client does it again."""
    paths: dict[str, Any] = {}
    read = StaticFilesMiddleware.add_files_from_finders

    def add_files_from_finders(self: StaticFilesMiddleware) -> None:
        if not paths:
            read(self)
            paths.update(self.files)
        self.files = paths

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesMiddleware, "add_files_from_finders", add_files_from_finders)
        yield


def pytest_runtest_setup() -> None:
    """A test on a busy machine could reach the limit that ``historyapp.wsgi`` and tests of workers set."""
    long_transactions._Process.seconds = None


@pytest.fixture(scope="module")
def light() -> Iterator[None]:
    """The processes that a module's tests start load no spaCy, which takes longest."""
    with light_processes():
        yield


@pytest.fixture(scope="module")
def lighter() -> Iterator[None]:
    """The same, and these processes estimate tokens: loading a tokenizer takes half a second in each."""
    with light_processes(estimating=True):
        yield


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction that a test runs in counts as ended, so that its changes are read."""
    monkeypatch.setattr(changes, "_SETTLED", "")
    # PostgreSQL counts it as started only when it or a later one ends. Others may run in other databases.
    own = "pg_current_xact_id_if_assigned()::text::bigint + 1"
    monkeypatch.setattr(
        changes, "_NEXT_TRANSACTION", f"SELECT greatest(({changes._NEXT_TRANSACTION}), {own})"
    )
