"""SQLite stores ids and times of changes in few bytes; every read is the same as before."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from hypothesis import given
from hypothesis import strategies as st

from historyapp.models import Change
from historyapp.models.changes import changes_since
from historyapp.models.fields import compact_time, compact_uuid, read_compact_time, read_compact_uuid
from tests.models.older_rows import insert_project

BEFORE, AFTER = "0051_summary_instruction", "0052_compact_changes"
TIMES = (
    datetime(2026, 11, 1, 12, 30, 15, 123456, tzinfo=UTC),
    datetime(2026, 11, 1, 12, 30, 16, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
)
SESSIONS = (UUID("01a215be554a7426a6ef6aba735f0de9"), UUID(int=12345678901234567890123456789012, version=4))
RUN = UUID(hex="12345678901234567890123456789012")
"""Only digits, which SQLite could take for a number."""


@given(st.uuids(), st.datetimes(timezones=st.just(UTC)))
def test_ids_and_times_are_read_as_they_were_written(id: UUID, at: datetime) -> None:
    assert read_compact_uuid(compact_uuid(id)) == id
    assert read_compact_time(compact_time(at)) == at


def rows(model: Any) -> list[dict[str, Any]]:
    return list(model.objects.order_by("id").values())


def older_model(name: str) -> Any:
    return (
        MigrationExecutor(connection)
        .loader.project_state(("historyapp", BEFORE))
        .apps.get_model("historyapp", name)
    )


def test_changes_of_an_older_database_read_the_same_before_and_after(older: Callable[[str], None]) -> None:
    older(BEFORE)
    project, then = insert_project("ours"), older_model("Change")
    for number, at in enumerate(TIMES):
        session, run = SESSIONS[number % 2], RUN if number else None
        then.objects.create(
            project_id=project.pk, session_id=session, kind="run", run_id=run, at=at, last_position=number
        )
    written = rows(then)

    call_command("migrate", "historyapp", AFTER, verbosity=0)
    assert rows(Change) == written
    read = changes_since(project.pk).changes
    assert [(change.session, change.run, change.at) for change in read] == [
        (row["session_id"], row["run_id"], row["at"]) for row in written
    ]
    assert Change.objects.filter(at__lt=TIMES[1], session_id=SESSIONS[0]).count() == 2
    Change.objects.create(project_id=project.pk, session_id=SESSIONS[0], kind="run", at=TIMES[0])

    call_command("migrate", "historyapp", BEFORE, verbosity=0)
    last = written[-1]["id"] + 1
    assert rows(then)[:-1] == written
    assert rows(then)[-1]["id"] == last, "numbers continue, because readers hold cursors"
    assert rows(then)[-1]["at"] == TIMES[0]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has types for ids and times")
def test_sqlite_stores_ids_in_16_bytes_and_times_as_numbers(db: None) -> None:
    project = insert_project("ours")
    Change.objects.create(
        project=project, session_id=SESSIONS[0], run_id=RUN, at=TIMES[0] + timedelta(days=1)
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT length(session_id), length(run_id), typeof(at) FROM historyapp_change")
        assert cursor.fetchall() == [(16, 16, "integer")]
