"""Metadata counts towards the bytes that a request may read, and is kept only where it is used."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from historyapp.core.entries import ModelInput
from historyapp.core.errors import Invalid
from historyapp.models import Entry, Project, Session, long_rows, request_origins, sql
from historyapp.models.history import History
from historyapp.models.sql import WINDOW_KEYS, window_rows
from historyapp.services.append import append
from historyapp.services.names import index
from historyapp.services.recorded.requests import recorded_request
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, ok

LISTS: list[list[object]] = [[]] * 1000
"""2,999 characters, which take 64,056 bytes."""


@pytest.fixture
def session(db: None) -> Session:
    """Ten inputs with long metadata, and a step."""
    project = Project.objects.create(name="Alice's")
    session = create_session(project)
    inputs = [draft(ModelInput(content="x"), j=LISTS, source={"id": str(n)}) for n in range(10)]
    output = draft(act().body, None, j=LISTS, model="big", snapshot="none")
    append(project, session.pk, [*inputs, output, ok()])
    session.refresh_from_db()
    return session


@pytest.fixture
def limit() -> Iterator[None]:
    token = long_rows.bytes_left.set(30_000)
    yield
    long_rows.bytes_left.reset(token)


READS: dict[str, Callable[[Session], object]] = {
    "window": lambda session: list(window_rows(session.lineage())),
    "request of a step": lambda session: recorded_request(History(session), 1),
    "rows": lambda session: [row.metadata for row in Entry.objects.filter(session=session)],
    "columns": lambda session: list(Entry.objects.values_list("metadata", flat=True)),
    "entries": lambda session: list(History(session).entries(limit=20)),
}


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("name", READS)
def test_metadata_counts_as_read(session: Session, name: str) -> None:
    with pytest.raises(Invalid, match="bytes of entries"):
        READS[name](session)


@pytest.mark.parametrize("name", READS)
def test_a_worker_reads_long_metadata_without_a_limit(session: Session, name: str) -> None:
    assert READS[name](session)


def test_a_window_keeps_only_the_metadata_that_is_used(session: Session) -> None:
    rows = list(window_rows(session.lineage()))
    assert [row.position for row in rows] == list(range(12, 0, -1))
    assert all(row.metadata.keys() <= set(WINDOW_KEYS) for row in rows)
    assert rows[-1].ids == {"0"}
    assert rows[1].metadata == {"model": "big", "snapshot": "none"}


def test_a_window_of_a_limited_size_ends_after_it(session: Session) -> None:
    assert [row.position for row in window_rows(session.lineage(), 8_000)] == [12, 11, 10, 9]


def test_origins_of_outputs_keep_only_the_metadata_that_is_used(session: Session) -> None:
    (output,) = request_origins._logged_outputs(session.pk, [11])
    assert output.metadata == {"model": "big", "snapshot": "none"}


def test_the_index_of_names_reads_long_metadata_a_few_times(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [draft(ModelInput(content="x"), j=LISTS) for _ in range(40)]
    append(session.project, session.pk, [*inputs, act(), ok()])
    monkeypatch.setattr(index, "AT_ONCE", 20_000)
    monkeypatch.setattr(index, "WINDOW_SIZE", 20_000)
    read, load = list[int](), sql._log_row

    def record(row: Any) -> Any:
        read.append(row[0])
        return load(row)

    monkeypatch.setattr(sql, "_log_row", record)
    session.refresh_from_db()
    while index.add_chunk(session):
        pass
    assert 20 < len(read) < 50
