"""On PostgreSQL, a locked row delays only the work on it, and not the clock's other duties."""

import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from historyapp import clock, tasks
from historyapp.models import CompressionRun, CountedSession, Project, Session
from historyapp.services.append import append
from historyapp.services.figures.feed import follow_changes
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok
from tests.test_worker import record_messages_to_workers

pytestmark = [
    pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite has no locks of rows"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def due() -> Iterator[list[Session]]:
    """Two due sessions. Another transaction has locked the first one, and has counted it."""
    project = Project.objects.create(name="ours")
    sessions = sorted((create_session(project) for _ in range(2)), key=lambda session: session.pk)
    for session in sessions:
        append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    CountedSession.objects.create(session_id=sessions[0].pk, project=project)
    with connection.copy().cursor() as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_session WHERE id = %s FOR UPDATE", [sessions[0].pk])
        other.execute("SELECT 1 FROM historyapp_countedsession FOR UPDATE")
        yield sessions
        other.execute("ROLLBACK")
        other.connection.close()


def test_a_locked_session_delays_no_automatic_run_of_another_one(
    due: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    record_messages_to_workers(monkeypatch)
    started = time.monotonic()
    tasks.start_due_runs()
    assert time.monotonic() - started < 5
    assert [run.session_id for run in CompressionRun.objects.all()] == [due[1].pk]
    assert Session.objects.get(pk=due[0].pk).compression_due, "it starts when the lock is released"


def test_the_clock_waits_for_a_locked_row_only_briefly(due: list[Session]) -> None:
    stopping, looks = threading.Event(), list[float]()

    def look() -> None:
        looks.append(time.monotonic())
        if len(looks) == 2:
            stopping.set()
        follow_changes(lambda: False)

    clock.run_clock(due[0].pk, look, stopping)
    assert looks[1] - looks[0] < 5
