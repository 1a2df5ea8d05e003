"""No query of SQLite is open while its thread waits, or after it has read much: the WAL could only grow."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from historyapp.models import Entry, Project, Session, large_reads, long_rows, open_queries, sql
from historyapp.models.large_reads import RequestRead, request_read
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import ask

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL gets portions of limited size"),
]
Read = Callable[[Session], object]
READERS: list[Read] = [
    lambda session: [entry.position for entry in Entry.objects.live(session.lineage())],
    lambda session: [entry.position for entry in sql.live_entries(session.lineage(), ["model_input"])],
    lambda session: [row.position for row in sql.window_rows(session.lineage())][::-1],
]


@pytest.fixture
def session(transactional_db: None) -> Session:
    """Five inputs of 3,000 characters each."""
    session = create_session(Project.objects.create(name="Alice's"))
    append(session.project, session.pk, [ask("x" * 3000)] * 5)
    return Session.objects.get(pk=session.pk)


def can_write(project: Project) -> bool:
    """Whether this thread can write after another one: not while a query is open that began before."""

    def write_elsewhere() -> None:
        create_session(project)
        connection.close()

    thread = threading.Thread(target=write_elsewhere)
    thread.start()
    thread.join()
    create_session(project)
    return True


@pytest.mark.parametrize("read", READERS)
def test_a_request_that_waits_for_a_slot_has_no_open_query(
    session: Session, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def take(owner: bytes, seconds: float) -> None:
        token = request_read.set(None)
        waits.append(can_write(session.project))
        request_read.reset(token)

    monkeypatch.setattr(large_reads, "VERY_LARGE", 8000)
    monkeypatch.setattr(large_reads.LARGE_READS, "take", take)
    tokens = request_read.set(RequestRead()), long_rows.bytes_left.set(long_rows.MAX_READ)
    assert read(session) == [1, 2, 3, 4, 5]
    assert waits == [True]
    request_read.reset(tokens[0])
    long_rows.bytes_left.reset(tokens[1])


def test_a_query_is_closed_when_much_has_been_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_queries, "MAX_READ", 4000)
    entries = Entry.objects.live(session.lineage())
    assert [next(entries).position, next(entries).position] == [1, 2]
    assert can_write(session.project)
    assert [entry.position for entry in entries] == [3, 4, 5]
