"""On a full disk, the start and the stop of a server say which folder needs how much space."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from historyapp.disk import watched_folder
from historyapp.supervisor import merge_wal
from tests.services.test_faults import tiny_disk as tiny_disk

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a disk of its own")


@pytest.mark.django_db
def test_a_start_on_a_full_disk_names_the_folder_and_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(recorder: MigrationRecorder) -> None:
        cause = sqlite3.OperationalError("database or disk is full")
        cause.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise OperationalError(*cause.args) from cause

    monkeypatch.setattr(MigrationRecorder, "applied_migrations", fail)
    with pytest.raises(CommandError) as raised:
        call_command("up", "--port", "0", "--no-demo")
    begins = f"The database cannot be used: database or disk is full. The disk of {watched_folder()} is full"
    assert str(raised.value).startswith(begins)
    assert str(raised.value).endswith("and Playhead needs about 8,000,000. Free some space.")


def test_a_stop_on_a_full_disk_keeps_the_newest_changes_and_says_so(
    tiny_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_disk / "playhead.sqlite3"
    with closing(sqlite3.connect(file)) as reader, closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE log (body)")
        reader.execute("SELECT count(*) FROM log").fetchone()
        writer.execute("INSERT INTO log VALUES (?)", ["x" * 1_000_000])
        writer.commit()
        with (tiny_disk / "other").open("wb", buffering=0) as other, suppress(OSError):
            while True:
                other.write(bytes(512))
        merge_wal(file)
    output = capsys.readouterr().err
    assert output.startswith("The newest changes stay in playhead.sqlite3-wal (database or disk is full).")
    assert f"The disk of {tiny_disk} is full or refuses writes: it has 0 bytes of free space" in output
    (tiny_disk / "other").unlink()
    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (1,)


def test_a_stop_with_a_damaged_file_does_not_name_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "playhead.sqlite3"
    file.write_bytes(b"no database" * 1_000)
    merge_wal(file)
    assert capsys.readouterr().err.endswith("(file is not a database).\n")
