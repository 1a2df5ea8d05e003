"""Rows with long bodies are read one after another, and one request reads a limited number of bytes."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import ModelInput
from historyapp.core.errors import Invalid
from historyapp.models import Entry, Project, Session, landmarks, long_rows, sql, text_search
from historyapp.models.history import History
from historyapp.models.text_search import TextSearch
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.services.drafts import act, ask, draft, ok

QUERY = "SELECT position, body FROM historyapp_entry ORDER BY position {} LIMIT 9"


@pytest.fixture
def session(db: None) -> Session:
    """An input, ten steps with a result of 3,000 characters each, and another input."""
    project = Project.objects.create(name="Alice's")
    session = create_session(project)
    drafts = [ask("Go on."), *[draft for _ in range(10) for draft in (act("ls"), ok(outputs="x" * 3000))]]
    append(project, session.pk, [*drafts, ask("Stop.")])
    session.refresh_from_db()
    return session


@pytest.fixture
def limit() -> Iterator[None]:
    token = long_rows.bytes_left.set(20_000)
    yield
    long_rows.bytes_left.reset(token)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("direction", ["", "DESC"])
def test_rows_come_in_portions_of_limited_size(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = QUERY.format(direction)
    with connection.cursor() as cursor:
        cursor.execute(query)
        expected = list(cursor.fetchall())
    with CaptureQueriesContext(connection) as queries:
        assert list(long_rows.long_rows(query, [], f"position {direction}")) == expected
    assert len(queries) == 1
    monkeypatch.setattr(long_rows, "AT_ONCE", 4000)
    with CaptureQueriesContext(connection) as queries:
        assert list(long_rows.long_rows(query, [], f"position {direction}")) == expected
    assert len(queries) == (1 if connection.vendor == "sqlite" else 3)  # two results at once


@pytest.mark.usefixtures("session")
def test_on_sqlite_a_batch_ends_after_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT position, metadata FROM historyapp_entry ORDER BY position DESC"
    expected = list(long_rows.long_rows(query, [], "position DESC", ("metadata",)))
    assert len(expected) == 22
    monkeypatch.setattr(long_rows, "AT_ONCE", 20)  # ten times {}
    with CaptureQueriesContext(connection) as queries:
        assert list(long_rows.long_rows(query, [], "position DESC", ("metadata",))) == expected
    assert len(queries) == 3


def test_a_query_that_can_have_no_result_yields_nothing(session: Session) -> None:
    for rows in (Entry.objects.filter(session=session)[:0], Entry.objects.filter(pk__in=[])):
        assert not list(long_rows.long_models(rows, "position", ("body",)))


@pytest.mark.django_db(transaction=True)
def test_a_reader_can_write_between_two_rows_even_after_another_writer() -> None:
    """SQLite refuses the transaction while a query that began before the other one's commit is open."""
    session = create_session(Project.objects.create(name="Alice's"))
    append(session.project, session.pk, [ask("One."), ask("Two.")])

    def write_elsewhere() -> None:
        append(session.project, session.pk, [ask("Three.")])
        connection.close()

    rows = long_rows.long_rows(QUERY.format(""), [], "position")
    assert next(rows)[0] == 1
    thread = threading.Thread(target=write_elsewhere)
    thread.start()
    thread.join()
    append(session.project, session.pk, [ask("Four.")])
    assert [row[0] for row in rows] == [2]


@pytest.mark.usefixtures("limit")
def test_bodies_that_models_load_count_as_read(session: Session) -> None:
    assert len(list(Entry.objects.filter(session=session, position__lte=4))) == 4
    with pytest.raises(Invalid, match="bytes of entries"):
        list(Entry.objects.filter(session=session))


@pytest.mark.usefixtures("limit")
def test_bodies_of_the_page_of_a_step_count_as_read(session: Session) -> None:
    with pytest.raises(Invalid, match="bytes of entries"):
        list(History(session).entries(limit=2000))


@pytest.mark.parametrize("indexed", [False, True])
def test_a_search_reads_limited_text_and_the_next_one_continues(
    session: Session, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if indexed:
        monkeypatch.setattr("historyapp.models.text_blocks.BLOCK_CHARACTERS", 3000)
        index_text(session.pk)
    monkeypatch.setattr(text_search, "MAX_TEXT", 5000)
    monkeypatch.setattr(text_search, "MAX_BLOCK_TEXT", 5000)
    searches, hits = 0, 0
    after: int | None = 0
    while after is not None:
        page = TextSearch(History(session), "xxx").find(100, after)
        searches, after, hits = searches + 1, page.more, hits + len(page.hits)
    assert (searches, hits) == (6, 10)


def test_a_jump_reads_limited_text_and_returns_where_it_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [draft(ModelInput(channel="hook", content="y" * 3000)), act("ls"), ok()]
    append(session.project, session.pk, [*(notes * 4), ask("At last."), act("ls"), ok()])
    history = History(Session.objects.get(pk=session.pk))
    assert landmarks.turn(history, 11, True).step == 15
    monkeypatch.setattr(landmarks, "MAX_TEXT", 7000)
    assert landmarks.turn(history, 10, True) == landmarks.Landmark(11)
    assert landmarks.turn(history, 11, True) == landmarks.Landmark(None, 13)
    monkeypatch.setattr(landmarks, "MAX_TEXT", 2000)
    assert landmarks.turn(history, 11, True) == landmarks.Landmark(None, 12), "not the step where it began"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL does not read long bodies to sort rows")
@pytest.mark.parametrize("kind", ["model_input", "tool_results"])
def test_no_query_sorts_bodies(session: Session, kind: str) -> None:
    rewind(session.project, session.pk, Target(to_step=4))
    append(session.project, session.pk, [ask("Go on."), act("ls"), ok()])
    history = History(Session.objects.get(pk=session.pk))
    lineage = history.lineage
    queries = list[tuple[str, Any]]()

    def keep(execute: Any, statement: str, values: Any, many: bool, context: Any) -> Any:
        queries.append((statement, values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(keep):
        assert len(list(Entry.objects.live(lineage))) == 12
        assert list(Entry.objects.live(lineage, kinds=[kind], newest_first=True, limit=3))
        assert list(sql.live_entries(lineage, [kind]))
        assert list(sql.each_live_entry(lineage, [kind], 1, lineage.last))
        assert sql.newest_or_oldest(lineage, kind, newest=True)
        assert list(sql.window_rows(lineage))
        assert landmarks.turn(history, 5, False) == landmarks.Landmark(1)
    of_several_spans = [(statement, values) for statement, values in queries if " OR " in statement]
    assert len(of_several_spans) >= 6
    with connection.cursor() as cursor:
        for statement, values in of_several_spans:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values)
            plan = cursor.fetchall()
            sorts = [parent for _, parent, _, step in plan if "ORDER BY" in step]
            assert sorts, "rows of several ranges have to be sorted"
            assert 0 not in sorts, "the rows with their bodies are sorted"
