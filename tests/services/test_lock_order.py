"""On PostgreSQL, a transaction waits for a session before it locks anything else.

A transaction that has locked a row has a number, and the feed of changes of all projects waits for it.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from historyapp.models import CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.bulk.start import BulkRequest, start_bulk_action
from historyapp.services.bulk.work import process_bulk_action
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import retry_run, start_run
from historyapp.services.compression.store import abort_run, finish_run, store_results
from historyapp.services.notes import put_note
from historyapp.services.retention import erase
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.services.transactions import limit_lock_waits, writing
from tests.services.drafts import act, ok

pytestmark = [
    pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite runs one writer at a time"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def recorded() -> Session:
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    return session


def _planned(session: Session) -> CompressionRun:
    run = start_run(session.project, session.pk, RunRequest("structured", from_step=1, to_step=4)).run
    plan(run.pk)
    return run


def change_in_bulk(session: Session) -> Callable[[], object]:
    action = start_bulk_action(session.project, BulkRequest("add_tag", [session.pk], tag="a"))
    return lambda: process_bulk_action(action.pk, lambda: False, lambda run: None)


def store(session: Session) -> Callable[[], object]:
    run = _planned(session)
    return lambda: store_results(run.pk, uuid4(), [])


def finish(session: Session) -> Callable[[], object]:
    run = _planned(session)
    run.items.update(state="done")
    return lambda: finish_run(run.pk)


def abort(session: Session) -> Callable[[], object]:
    run = _planned(session)
    return lambda: abort_run(run.pk, "It cannot continue.")


def retry(session: Session) -> Callable[[], object]:
    run = _planned(session)
    abort_run(run.pk, "It cannot continue.")
    return lambda: retry_run(run)


def delete(session: Session) -> Callable[[], object]:
    _planned(session)
    change_session(session.project, session.pk, {"status": "archived"})
    return lambda: erase(Session.objects.get())


@pytest.mark.parametrize("prepare", [change_in_bulk, store, finish, abort, retry, delete])
def test_what_waits_for_a_session_has_locked_nothing(
    recorded: Session, prepare: Callable[[Session], Callable[[], object]]
) -> None:
    write = prepare(recorded)
    with ThreadPoolExecutor(1) as pool, closing(connection.copy()) as other, other.cursor() as reader:
        with transaction.atomic():
            Session.objects.select_for_update().get()
            written = pool.submit(_closing, write)
            waiting: list[object] = []
            while not waiting and not written.done():
                reader.execute(
                    "SELECT backend_xid FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
                waiting = reader.fetchall()
            assert waiting == [(None,)]
        written.result()


def _closing(write: Callable[[], object]) -> None:
    try:
        write()
    finally:
        connection.close()


def note_shared_step(session: Session) -> None:
    put_note(session.project, session.pk, 1, "Look here.")


def summarise_shared_step(session: Session) -> None:
    add_summary(session.project, session.pk, (1, 1), SummaryText("It was read."))


@pytest.fixture
def locked_parent(recorded: Session) -> Iterator[Session]:
    """A session that another transaction has locked, and its fork."""
    child = fork(recorded.project, recorded.pk)
    with connection.copy().cursor() as other:
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_session WHERE id = %s FOR NO KEY UPDATE", [recorded.pk])
        yield child
        other.execute("ROLLBACK")
        other.connection.close()


@pytest.mark.parametrize("write", [note_shared_step, summarise_shared_step])
def test_what_has_locked_a_session_waits_for_another_one_only_briefly(
    locked_parent: Session, write: Callable[[Session], object]
) -> None:
    usual, started = _lock_timeout(), time.monotonic()
    with pytest.raises(OperationalError, match="lock timeout"):
        write(locked_parent)
    assert time.monotonic() - started < 5
    assert _lock_timeout() == usual, "the limit ends with the transaction"


def test_a_shorter_limit_of_lock_waits_stays() -> None:
    with writing(max_wait=0.2):
        limit_lock_waits()
        assert _lock_timeout() == "200ms"
    with writing():
        limit_lock_waits()
        assert _lock_timeout() == "1s"


def _lock_timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        return str(cursor.fetchone()[0])
