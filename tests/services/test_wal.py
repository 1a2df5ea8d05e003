"""A long log of changes (WAL) is shortened while the server runs."""

import shutil
import sqlite3
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace as Namespace

import pytest

from historyapp.services import wal

Usage = namedtuple("Usage", "free")
LENGTH = 200_000


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A database whose log has more than 200,000 bytes."""
    monkeypatch.setattr(wal, "WAIT_SECONDS", 0.01)
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA synchronous=OFF")
        writer.execute("CREATE TABLE texts (text)")
        writer.execute("INSERT INTO texts VALUES (?), (?)", ["x" * LENGTH, "y"])
        yield writer


def wal_size(folder: Path) -> int:
    return (folder / "db-wal").stat().st_size


def test_a_long_log_is_written_back(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.models.wal_size.MAX_BYTES", LENGTH * 2)
    wal.shorten_wal(str(tmp_path / "db"))
    assert wal_size(tmp_path) > LENGTH, "a short log stays"
    monkeypatch.setattr("historyapp.models.wal_size.MAX_BYTES", LENGTH)
    wal.shorten_wal(str(tmp_path / "db"))
    assert wal_size(tmp_path) == 0


def test_a_log_is_written_back_before_it_fills_the_disk(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wal.shorten_wal("db")
    assert wal_size(tmp_path) > LENGTH, "the disk has space"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2 * LENGTH))
    wal.shorten_wal("db")
    assert wal_size(tmp_path) == 0


def test_a_query_that_uses_the_log_stays_open(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.models.wal_size.MAX_BYTES", LENGTH)
    with closing(sqlite3.connect(tmp_path / "db")) as reader:
        rows = reader.execute("SELECT text FROM texts")
        assert len(next(rows)[0]) == LENGTH
        writer.execute("INSERT INTO texts VALUES ('z')")
        wal.shorten_wal(str(tmp_path / "db"))
        assert wal_size(tmp_path) > LENGTH
        assert rows.fetchall() == [("y",)]
    wal.shorten_wal(str(tmp_path / "db"))
    assert wal_size(tmp_path) == 0
    assert writer.execute("SELECT COUNT(*) FROM texts").fetchone() == (3,)


def test_the_log_does_not_keep_what_was_deleted(
    writer: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Namespace(vendor="sqlite", settings_dict={"NAME": tmp_path / "db"}, in_atomic_block=False)
    monkeypatch.setattr(wal, "connection", database)
    monkeypatch.setattr(wal._Emptied, "next_attempt", 0.0)
    monkeypatch.setattr(wal, "BRIEF_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(wal, "MAX_SHARE", 1e-6)
    writer.execute("PRAGMA secure_delete=ON")
    writer.execute("DELETE FROM texts")
    kept = b"x" * 1_000
    with closing(sqlite3.connect(tmp_path / "db")) as reader:
        assert reader.execute("SELECT COUNT(*) FROM texts").fetchone() == (0,)
        assert kept in (tmp_path / "db-wal").read_bytes()
        assert wal.empty_wal()
        assert all(kept not in file.read_bytes() for file in tmp_path.iterdir())
        writer.execute("INSERT INTO texts VALUES ('z')")
        assert not wal.empty_wal(), "it was emptied a moment ago"
        wal._Emptied.next_attempt = 0.0
        assert wal.empty_wal()
