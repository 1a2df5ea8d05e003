"""Faults of the database are recognised by SQLite's error codes, and damage stops every write."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection
from django.db.utils import ConnectionHandler
from django.http import HttpResponse
from django.test import Client, RequestFactory
from pytest_django import DjangoDbBlocker

from dashboard.errors import ErrorPages
from historyapp.api.problems import problem_response
from historyapp.celery import app
from historyapp.models import Entry, Project
from historyapp.services import faults
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.faults import (
    check_at_start,
    check_database,
    clear_fault,
    current_fault,
    record_fault,
)
from historyapp.services.sessions import create_session
from historyapp.services.transactions import writing
from historyapp.wire.problems import DatabaseCorrupt, StorageFailed, problem_type
from tests.api.agent import Agent, ask
from tests.api.conftest import alice as alice
from tests.api.conftest import project as project
from tests.api.conftest import run as run
from tests.api.conftest import session_id as session_id
from tests.api.test_problems import assert_problem
from tests.commands.test_up import refused
from tests.installation import copy_migrated
from tests.services.drafts import act, ok

PAGE = 4096


@pytest.fixture(autouse=True)
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file by which all processes learn of damage. Here it belongs to one test."""
    path = tmp_path / "damaged"
    monkeypatch.setattr(faults, "_damage_file", lambda: path)
    monkeypatch.setattr(
        faults,
        "_FaultState",
        type("_FaultState", (faults._FaultState,), {"logged_at": {}, "checked_at": -faults.FAULT_SECONDS}),
    )
    return path


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    """A file of 200 rows on as many pages, outside the database of the tests."""
    path = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body TEXT)")
        file.executemany("INSERT INTO log (body) VALUES (?)", [("x" * 3000,)] * 200)
        file.commit()
    with django_db_blocker.unblock():
        yield path


def run_all(connection: Any, statements: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            cursor.fetchall()


def failure(name: Path | str, *statements: str, **options: object) -> DatabaseError:
    """The error with which the last statement fails on this database, as Django raises it."""
    config = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(name), "OPTIONS": options}
    connection = ConnectionHandler({"default": config})["default"]
    try:
        with pytest.raises(DatabaseError) as caught:
            run_all(connection, statements)
    finally:
        connection.close()
    return caught.value


INSERT = f"INSERT INTO log (body) VALUES ('{'y' * 100_000}')"


def code(error: BaseException) -> str | None:
    fault = record_fault(error)
    return fault.code if fault else None


def test_a_file_with_a_size_limit_counts_as_a_full_disk(database: Path) -> None:
    assert code(failure(database, "PRAGMA max_page_count=1", INSERT)) == "disk-full"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_a_fault(database: Path, tiny_disk: Path) -> None:
    shutil.copy(database, tiny_disk)
    with closing(sqlite3.connect(tiny_disk / database.name)) as file:
        file.execute("PRAGMA journal_mode=WAL")
    with (tiny_disk / "other").open("wb", buffering=0) as other, suppress(OSError):
        while True:
            other.write(bytes(PAGE))
    assert code(failure(tiny_disk / database.name, INSERT)) == "disk-full"
    (tiny_disk / "other").unlink()
    with closing(sqlite3.connect(tiny_disk / database.name)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_read_only_database_is_a_fault(database: Path) -> None:
    assert code(failure(f"file:{database}?mode=ro", INSERT, uri=True)) == "database-read-only"


def test_a_lock_of_another_program_is_a_fault(database: Path) -> None:
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert code(failure(database, INSERT, timeout=0.05)) == "database-locked"
    assert current_fault() is not None


def garble_pages(path: Path) -> None:
    with path.open("r+b") as file:
        for page in range(2, 60):
            file.seek(page * PAGE)
            file.write(os.urandom(PAGE))


def garble_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database at all" * 10)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def truncate_within_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3 + 77)


DAMAGES = [garble_pages, garble_head, truncate, truncate_within_a_page]
Damage = Callable[[Path], None]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_recognised_by_the_statement_that_reads_it(
    database: Path, marker: Path, damage: Damage
) -> None:
    damage(database)
    assert code(failure(database, "SELECT count(body) FROM log WHERE body LIKE '%z%'")) == "database-corrupt"
    assert marker.read_text().strip() != ""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("thorough", [False, True])
def test_the_check_finds_damage_before_any_request_does(
    database: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, thorough: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(database))
    monkeypatch.setattr(connection, "vendor", "sqlite")
    assert check_database(thorough=thorough) == ""
    damage(database)
    assert check_database(thorough=thorough) != ""


def test_a_repaired_database_is_used_again_after_a_start(
    database: Path, monkeypatch: pytest.MonkeyPatch, marker: Path
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(database))
    monkeypatch.setattr(connection, "vendor", "sqlite")
    backup = shutil.copy(database, database.with_suffix(".backup"))
    truncate(database)
    assert check_at_start() != ""
    assert marker.exists()
    assert isinstance(current_fault(), DatabaseCorrupt)
    shutil.copy(backup, database)
    assert check_at_start() == ""
    assert not marker.exists()
    assert current_fault() is None


def test_a_check_that_takes_too_long_ends(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", str(database))
    monkeypatch.setattr(connection, "vendor", "sqlite")
    truncate(database)
    assert check_database(0.0) in ("", check_database())


def test_other_errors_are_not_faults(database: Path) -> None:
    assert record_fault(failure(database, "SELECT nothing FROM log")) is None
    assert record_fault(KeyError("x")) is None
    assert record_fault(None) is None


POSTGRES: list[tuple[Exception, str | None]] = [
    (psycopg.errors.DiskFull("could not extend file"), "disk-full"),
    (psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT"), "database-read-only"),
    (psycopg.errors.AdminShutdown("terminating connection"), "database-unreachable"),
    (psycopg.errors.CannotConnectNow("the database system is starting up"), "database-unreachable"),
    (psycopg.errors.TooManyConnections("sorry, too many clients already"), "database-unreachable"),
    (psycopg.OperationalError("server closed the connection unexpectedly"), "database-unreachable"),
    (psycopg.errors.LockNotAvailable("could not obtain lock"), "database-locked"),
    (psycopg.errors.DataCorrupted("invalid page in block 3"), "database-corrupt"),
    (psycopg.errors.DeadlockDetected("deadlock detected"), None),
    (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), None),
]


@pytest.mark.parametrize(("cause", "expected"), POSTGRES, ids=lambda value: type(value).__name__)
def test_postgresql_names_the_same_faults_by_its_states(
    monkeypatch: pytest.MonkeyPatch, cause: Exception, expected: str | None
) -> None:
    monkeypatch.setattr(connection, "vendor", "postgresql")
    error = OperationalError(*cause.args)
    error.__cause__ = cause
    assert code(error) == expected


def test_a_fault_is_forgotten_after_a_write(db: None, database: Path) -> None:
    record_fault(failure(database, "PRAGMA max_page_count=1", INSERT))
    assert current_fault() is not None
    with writing():
        pass
    assert current_fault() is None


def test_a_fault_is_logged_once_a_minute_with_its_cause(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        record_fault(failure(database, "PRAGMA max_page_count=1", INSERT))
    (record,) = caplog.records
    assert "disk-full" in record.getMessage()
    assert "database or disk is full" in record.getMessage()
    assert "bytes free" in record.getMessage() or "PostgreSQL" in record.getMessage()


def test_nothing_is_acknowledged_into_a_damaged_database(alice: Agent, run: Agent, marker: Path) -> None:
    marker.write_text("Tree 3 page 8: invalid page number\n")
    refused = run.post("/entries", {"entries": [ask()]})
    assert_problem(refused, 503, "damaged")
    assert refused["type"].endswith("#database-corrupt")
    assert refused.headers["Retry-After"] == "30"
    assert not Entry.objects.exists()
    assert run.get()["head"] == 0, "what is there can still be read"
    marker.unlink()
    assert run.post("/entries", {"entries": [ask()]}).status == 201


@pytest.mark.parametrize("kind", StorageFailed.__subclasses__())
def test_readyz_names_the_fault(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch, kind: type[StorageFailed]
) -> None:
    monkeypatch.setattr("historyapp.health.current_fault", lambda: kind("It is so."))
    response = client.get("/readyz")
    assert (response.status_code, response.json()["parts"]["database"]) == (503, kind.code)
    assert problem_type(kind).error is kind


def test_pages_report_the_fault(client: Client, db: None, marker: Path) -> None:
    clear_fault()
    assert b"The database is damaged" not in client.get("/sign-in").content
    marker.write_text("page 8")
    assert b"The database is damaged" in client.get("/sign-in").content


def test_a_fault_while_the_person_is_looked_up_is_a_page(
    database: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(database, "PRAGMA max_page_count=1", INSERT)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", fail)
    client.cookies["playhead_session"] = "a" * 32
    client.raise_request_exception = False
    response = client.get("/")
    assert response.status_code == 503
    assert b"Disk full" in response.content


@pytest.mark.parametrize("path", ["/", "/api/v1/sessions"])
def test_an_unexpected_error_in_a_damaged_database_is_answered_as_damage(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A damaged file may give rows that no code can read, for example with null in place of a number."""
    client.raise_request_exception = False
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", None)
    monkeypatch.setattr("historyapp.api.application.check_length", None)
    client.cookies["playhead_session"] = "a" * 32
    checks: list[float | None] = []

    def check(seconds: float | None = None) -> str:
        checks.append(seconds)
        return "page 8 is never used" if len(checks) == 2 else ""

    monkeypatch.setattr(faults, "check_database", check)
    assert client.get(path).status_code == 500
    assert client.get(path).status_code == 500
    assert checks == [faults.SHORT_CHECK_SECONDS]  # not again at once
    monkeypatch.setattr(faults._FaultState, "checked_at", -faults.FAULT_SECONDS)
    response = client.get(path)
    assert response.status_code == 503
    assert b"The database is damaged" in response.content


def test_a_page_says_that_the_database_is_busy() -> None:
    middleware = ErrorPages(lambda _: HttpResponse())
    page = middleware.process_exception(RequestFactory().get("/"), OperationalError("database is locked"))
    assert page is not None
    assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
    assert b"The database is busy" in page.content


def missing(table: str) -> DatabaseError:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
    except DatabaseError as error:
        return error
    raise AssertionError(f"{table} exists")


@pytest.mark.django_db(transaction=True)
def test_the_error_of_a_missing_migration_says_so() -> None:
    request = RequestFactory().get("/")
    page = ErrorPages(lambda _: HttpResponse()).process_exception(request, missing("historyapp_later"))
    assert page is not None
    assert page.status_code == 503
    for response in (page, problem_response(request, missing("historyapp_later"))):
        assert b"The database has not been migrated for this version" in response.content
        assert b"playhead up" in response.content
    assert "busy" not in page.content.decode()


def test_a_damaged_data_folder_is_not_served(tmp_path: Path) -> None:
    home = copy_migrated(tmp_path / "home")
    truncate(home / "playhead.sqlite3")
    output = refused(home, "--port", "0", DATABASE_URL="")
    assert f"CommandError: The database {home / 'playhead.sqlite3'} is damaged: " in output


def test_a_start_on_a_full_disk_says_so(
    database: Path, monkeypatch: pytest.MonkeyPatch, marker: Path
) -> None:
    error = failure(database, "PRAGMA max_page_count=1", INSERT)

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("historyapp.management.commands.up.MigrationRecorder.applied_migrations", fail)
    monkeypatch.setattr("historyapp.management.commands.up.check_at_start", lambda: "")
    with pytest.raises(
        CommandError, match=r"cannot be used: database or disk is full\. The disk .* Free some"
    ):
        call_command("up", "--port", "0", "--no-demo")


def test_a_worker_waits_while_the_database_is_damaged(project: Project, marker: Path) -> None:
    session = create_session(project)
    append(project, session.pk, [act("ls"), ok()] * 12)
    run = start_run(project, session.pk, RunRequest(strategy="simple_extract")).run
    marker.write_text("page 8")
    with pytest.raises(DatabaseCorrupt):
        process_run(run.pk)
    run.refresh_from_db()
    assert run.active
    with app.connection_for_read() as waiting:
        channel: Any = waiting.default_channel
        with pytest.raises(Empty):
            channel._get("celery")
