"""The database is durable by default, and set up for many writers at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from historyapp.database import CONNECTION_TIMEOUTS, database


@pytest.fixture(autouse=True)
def _nothing_configured(
    monkeypatch: pytest.MonkeyPatch, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("PLAYHEAD_SYNCHRONOUS", raising=False)
    with django_db_blocker.unblock():  # these tests open databases of their own
        yield


def pragma(home: Path, name: str) -> object:
    connection = ConnectionHandler({"default": database(home)})["default"]
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA {name}")
        (value,) = cursor.fetchone()
    connection.close()
    return value


def test_without_a_url_the_database_is_a_sqlite_file_in_the_data_folder(tmp_path: Path) -> None:
    assert pragma(tmp_path, "journal_mode") == "wal"
    assert (tmp_path / "playhead.sqlite3").is_file()


@pytest.mark.parametrize(
    ("name", "value"), [("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 20000)]
)
def test_sqlite_commits_are_durable_and_writers_wait(tmp_path: Path, name: str, value: int) -> None:
    assert pragma(tmp_path, name) == value


def test_sqlite_overwrites_what_is_deleted_however_it_was_built(tmp_path: Path) -> None:
    assert "PRAGMA secure_delete=ON" in database(tmp_path)["OPTIONS"]["init_command"]


def test_sqlite_transactions_take_the_write_lock_at_their_start(tmp_path: Path) -> None:
    assert database(tmp_path)["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.parametrize(("choice", "value"), [("full", 2), ("NORMAL", 1), ("OFF", 0)])
def test_the_operator_can_trade_durability_on_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, value: int
) -> None:
    monkeypatch.setenv("PLAYHEAD_SYNCHRONOUS", choice)
    assert pragma(tmp_path, "synchronous") == value


def test_a_sqlite_url_gets_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/elsewhere.sqlite3")
    assert pragma(tmp_path, "journal_mode") == "wal"
    assert (tmp_path / "elsewhere.sqlite3").is_file()


def test_postgresql_connections_stay_open_and_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://alice:p%40ss@db.example:6543/history?sslmode=require")
    config = database(tmp_path)
    assert (config["USER"], config["PASSWORD"], config["PORT"]) == ("alice", "p@ss", 6543)
    assert config["OPTIONS"] == {**CONNECTION_TIMEOUTS, "sslmode": "require"}
    assert config["CONN_MAX_AGE"] > 0
    assert config["CONN_HEALTH_CHECKS"] is True


@pytest.mark.parametrize(("choice", "commit"), [("FULL", "on"), ("NORMAL", "off"), ("OFF", "off")])
def test_the_operator_can_trade_durability_on_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, commit: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/history?options=-c%20work_mem=8MB")
    monkeypatch.setenv("PLAYHEAD_SYNCHRONOUS", choice)
    assert database(tmp_path)["OPTIONS"]["options"] == f"-c work_mem=8MB -c synchronous_commit={commit}"


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://user:secret@host/name",
        "postgresql://user:secret@host:port/name",
        "postgresql://user:secret@host",
        "sqlite://",
        "sqlite://:memory:",
    ],
)
def test_other_databases_are_refused_without_repeating_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL") as caught:
        database(tmp_path)
    assert "secret" not in str(caught.value)
