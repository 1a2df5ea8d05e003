"""Long rows are read in portions of few bytes, without cursors that PostgreSQL stores in temporary files."""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import pytest
from django.db import connection

from historyapp.models import CompressionItem, Entry, Project, Session, long_rows
from historyapp.models.entries import in_spans, spans_between
from historyapp.models.sql import fetch_all
from historyapp.services import strategy_comparisons
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, ok
from tests.services.test_memory_of_reads import ENTRIES, SIZE, inputs

LENGTH = 3_000


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def forked(project: Project, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A fork with rewinds, so that its lineage has several spans; two long entries fill a portion."""
    session = create_session(project)
    for number in range(8):
        append(project, session.pk, [act("ls"), ok(None, f"{number}" * LENGTH), ask("and?")])
    rewind(project, session.pk, Target(to_step=6))
    child = fork(project, session.pk)
    append(project, child.pk, [act("ls"), ok(None, "x" * LENGTH), act("ls"), ok(None, "y" * LENGTH)])
    monkeypatch.setattr(long_rows, "AT_ONCE", 200 if connection.vendor == "sqlite" else LENGTH + 100)
    return Session.objects.get(pk=child.pk)


@pytest.mark.parametrize("newest_first", [False, True])
def test_portions_contain_each_entry_once_and_in_order(forked: Session, newest_first: bool) -> None:
    lineage = forked.lineage()
    spans = list(spans_between(lineage))
    assert len(spans) > 1
    order = "-position" if newest_first else "position"
    for kinds, limit in product(((), ("tool_results",), ("model_input", "tool_results")), (None, 1, 7, 500)):
        rows = in_spans(Entry.objects.all(), spans).order_by(order)
        expected = list((rows.filter(kind__in=kinds) if kinds else rows)[:limit])
        read = list(Entry.objects.live(lineage, kinds=kinds, newest_first=newest_first, limit=limit))
        assert [entry.core() for entry in read] == [entry.core() for entry in expected]
        assert [entry.session_id for entry in read] == [entry.session_id for entry in expected]


def test_long_spans_are_read_in_parts(forked: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    lineage = forked.lineage()
    whole = [entry.position for entry in Entry.objects.live(lineage)]
    monkeypatch.setattr("historyapp.models.entries._SHORT", 4)
    assert [entry.position for entry in Entry.objects.live(lineage)] == whole
    backwards = Entry.objects.live(lineage, newest_first=True)
    assert [entry.position for entry in backwards] == whole[::-1]


def test_deferred_columns_are_not_read(forked: Session) -> None:
    entry = Entry.objects.defer("body").newest(forked.lineage())
    assert entry is not None
    assert entry.get_deferred_fields() == {"body"}
    entry = Entry.objects.only("position").newest(forked.lineage())
    assert entry is not None
    assert {"body", "metadata", "totals"} <= entry.get_deferred_fields()


@pytest.mark.parametrize("limit", [50, 500, None])
def test_the_first_of_many_long_entries_take_memory_for_a_few(
    project: Project, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    inputs(session)
    session.refresh_from_db()
    monkeypatch.setattr(long_rows, "AT_ONCE", SIZE)
    lineage = session.lineage()

    def read() -> int:
        return len(list(islice(Entry.objects.live(lineage, limit=limit), 2)))

    assert read() == 2 < ENTRIES
    tracemalloc.start()
    try:
        read()
        assert tracemalloc.get_traced_memory()[1] < 9 * SIZE
    finally:
        tracemalloc.stop()


def entries_of(session: Session, limit: int | None) -> Iterator[Any]:
    return Entry.objects.live(session.lineage(), limit=limit)


def items_of(session: Session, limit: int | None) -> Iterator[Any]:
    run = start_run(session.project, session.pk, RunRequest("simple_extract", from_step=1, to_step=2)).run
    CompressionItem.objects.bulk_create(
        CompressionItem(
            run=run, number=number, first_step=1, last_step=1, first_position=1, last_position=2, text="long"
        )
        for number in range(1, 4)
    )
    return strategy_comparisons._items_of(run)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("read", [entries_of, items_of])
@pytest.mark.parametrize("limit", [500, None])
def test_no_cursor_outlives_its_transaction(
    forked: Session, read: Callable[[Session, int | None], Iterator[Any]], limit: int | None
) -> None:
    """PostgreSQL would write all rows of such a cursor to a temporary file before it returns the first."""
    rows = read(forked, limit)
    assert next(rows) is not None
    if connection.vendor == "postgresql":
        assert fetch_all("SELECT name FROM pg_cursors", []) == []
    assert len(list(rows)) >= 2
