"""On PostgreSQL, a full disk, a read-only server and a lost connection each have their own error."""

import io
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, close_old_connections, connection
from django.db.backends.signals import connection_created
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings

from historyapp import health, wsgi
from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.model_calls import call_model
from historyapp.llm.request import ModelRequest
from historyapp.llm.retries import RetryPolicy
from historyapp.models import ApiKey, Entry, Project, Session
from historyapp.services import model_calls, statement_limits
from historyapp.services.append import hold_sessions, lock_session
from historyapp.services.bootstrap import startup_lock
from historyapp.services.faults import fault_of
from historyapp.services.keys import change_scopes, usable_key
from historyapp.services.long_transactions import limit_transactions
from historyapp.services.statement_limits import limit_idle_time, limit_run_time
from historyapp.services.transactions import queued_seconds, writing
from historyapp.supervisor import ServerPlan
from historyapp.wire.problems import DatabaseUnreachable
from tests.api.agent import Agent, ask
from tests.api.conftest import alice as alice
from tests.api.conftest import project as project
from tests.api.conftest import run as run
from tests.api.conftest import session_id as session_id
from tests.api.test_problems import assert_problem
from tests.llm.conftest import loopback as loopback
from tests.llm.conftest import loopback_server as loopback_server
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.test_faults import marker as marker

pytestmark = [
    pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite has no server"),
    pytest.mark.django_db(transaction=True),
]


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def failing() -> Iterator[None]:
    """The next statements of a test can define ``fault()``, which runs before an entry is stored."""
    yield
    execute("DROP FUNCTION fault() CASCADE")


def before_each_entry(statement: str) -> None:
    body = f"BEGIN {statement}; RETURN NEW; END"
    execute(
        f"CREATE FUNCTION fault() RETURNS trigger AS $$ {body} $$ LANGUAGE plpgsql",
        "CREATE TRIGGER fault BEFORE INSERT ON historyapp_entry FOR EACH ROW EXECUTE FUNCTION fault()",
    )


@pytest.mark.usefixtures("failing")
def test_a_full_disk_of_the_server_is_reported(run: Agent, client: Client) -> None:
    full = 'could not extend file "base/5/1259": No space left on device'
    before_each_entry(f"RAISE EXCEPTION '{full}' USING ERRCODE = 'disk_full'")
    refused = run.post("/entries", {"entries": [ask()]})
    assert_problem(refused, 503, "full")
    assert refused["type"].endswith("#disk-full")
    assert refused.headers["Retry-After"] == "30"
    assert client.get("/readyz").json()["parts"]["database"] == "disk-full"
    assert run.get()["head"] == 0
    execute("ALTER TABLE historyapp_entry DISABLE TRIGGER fault")
    assert run.post("/entries", {"entries": [ask()]}).status == 201
    assert client.get("/readyz").json()["parts"]["database"] == "ok"


def test_a_read_only_server_is_reported(run: Agent, client: Client) -> None:
    execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    refused = run.post("/entries", {"entries": [ask()]})
    assert_problem(refused, 503, "standby")
    assert refused["type"].endswith("#database-read-only")
    assert run.get().status == 200
    assert "accepts no writes" in client.get("/sign-in").content.decode()
    execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    assert run.post("/entries", {"entries": [ask()]}).status == 201


@pytest.mark.usefixtures("failing")
def test_a_connection_that_breaks_in_a_request_is_reported_and_reopened(run: Agent, client: Client) -> None:
    before_each_entry("PERFORM pg_terminate_backend(pg_backend_pid())")
    refused = run.post("/entries", {"entries": [ask()]})
    assert_problem(refused, 503, "broke")
    assert refused["type"].endswith("#database-unreachable")
    assert client.get("/readyz").json()["parts"]["database"] == "ok", "it answers again"
    assert not Entry.objects.exists()
    execute("ALTER TABLE historyapp_entry DISABLE TRIGGER fault")
    assert run.post("/entries", {"entries": [ask()]}).status == 201


def test_a_connection_that_broke_between_requests_is_not_noticed(run: Agent) -> None:
    with connection.copy().cursor() as other:
        pid = connection.connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        other.connection.close()
    close_old_connections()  # as the server does before each request
    assert run.post("/entries", {"entries": [ask()]}).status == 201


@pytest.fixture
def short_waits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New connections wait a second for a lock, and their transactions a second for their client."""
    settings.PLAYHEAD_WRITE_SECONDS = 1
    monkeypatch.setattr(statement_limits, "IDLE_SECONDS", 1)
    connection.close()
    yield
    connection.close()


def test_waiting_for_a_row_that_another_program_holds_has_a_limit(
    run: Agent, client: Client, short_waits: None
) -> None:
    with connection.copy().cursor() as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_session FOR UPDATE")
        started = time.monotonic()
        refused = run.post("/entries", {"entries": [ask()]})
        assert time.monotonic() - started < 5
        assert_problem(refused, 503, "locked")
        assert refused["type"].endswith("#database-locked")
        assert client.get("/readyz").json()["parts"]["database"] == "ok", "other sessions can be written"
        other.execute("ROLLBACK")
        other.connection.close()
    assert run.post("/entries", {"entries": [ask()]}).status == 201


def test_holding_a_session_waits_for_no_append_but_keeps_it_from_being_deleted(
    run: Agent, session_id: str, project: Project, short_waits: None
) -> None:
    session = Session.objects.get(pk=session_id)
    with connection.copy().cursor() as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("SET lock_timeout = '1ms'")
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_session FOR NO KEY UPDATE")  # as an append does
        with writing():
            assert hold_sessions(project.pk, [session.pk]) == {session.pk}
            other.execute("ROLLBACK")
            with pytest.raises(DatabaseError, match="lock timeout"):  # lock_session would keep it too
                other.execute("DELETE FROM historyapp_session")
            assert lock_session(project, session.pk, to_append=True) == session
        other.connection.close()


def test_storing_rows_of_a_session_waits_for_no_other_writer_of_it(
    run: Agent, session_id: str, project: Project, short_waits: None
) -> None:
    """Foreign keys are checked at the commit, which waited for up to 20 s, and all feeds with it."""
    session = Session.objects.get(pk=session_id)
    with connection.copy().cursor() as other:
        other.execute("SET lock_timeout = '1ms'")
        with writing():
            lock_session(project, session.pk)
            other.execute("SELECT id FROM historyapp_session FOR KEY SHARE")  # as a foreign key does
            assert other.fetchall() == [(session.pk,)]
        other.connection.close()


def test_a_run_does_not_wait_at_its_commit_for_a_key_that_is_being_changed(
    run: Agent, project: Project, short_waits: None
) -> None:
    """It held the row that ended runs of all projects are counted in: they ended 11 s late."""
    key = ApiKey.objects.filter(project=project)[0]
    with connection.copy().cursor() as other:
        other.execute("SET lock_timeout = '1ms'")
        with writing():
            assert usable_key(project, key.prefix) == key
            assert "spend" in change_scopes(key, add=["spend"]).scopes
            other.execute("SELECT id FROM historyapp_apikey FOR KEY SHARE")  # as a foreign key does
        other.connection.close()


def test_the_wait_for_a_thread_counts_in_the_wait_for_locks(
    run: Agent, short_waits: None, settings: Settings
) -> None:
    settings.PLAYHEAD_WRITE_SECONDS = 10
    with connection.copy().cursor() as other:
        other.execute("SET idle_in_transaction_session_timeout = 0")
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_session FOR UPDATE")
        before, started = queued_seconds.set(9.5), time.monotonic()
        assert run.post("/entries", {"entries": [ask()]}).status == 503
        queued_seconds.reset(before)
        assert time.monotonic() - started < 5
        other.execute("ROLLBACK")
        other.connection.close()


def test_a_process_that_stops_within_a_transaction_loses_its_locks(
    run: Agent, short_waits: None, settings: Settings
) -> None:
    settings.PLAYHEAD_WRITE_SECONDS = 10
    stopped = connection.copy()
    with stopped.cursor() as cursor:
        cursor.execute("BEGIN")
        # With psycopg's own executemany, the limit would not apply until the next statement.
        cursor.executemany("UPDATE historyapp_session SET title = %s", [("one",), ("two",)])
        assert run.post("/entries", {"entries": [ask()]}).status == 201
        with pytest.raises(DatabaseError) as raised:
            cursor.execute("SELECT 1")
    assert isinstance(fault_of(raised.value), DatabaseUnreachable)
    stopped.close()


def test_rows_can_refer_to_a_project_that_is_locked(run: Agent, project: Project) -> None:
    """An append that had locked its session, and waited for the project at its commit, met a deadlock."""
    with writing(), connection.copy().cursor() as other:
        project.locked()
        other.execute("SELECT 1 FROM historyapp_project FOR KEY SHARE NOWAIT")  # as PostgreSQL checks the key
        with pytest.raises(OperationalError):
            other.execute("SELECT 1 FROM historyapp_project FOR NO KEY UPDATE NOWAIT")
        other.connection.close()


@pytest.mark.parametrize(("seconds", "idle"), [(5, "15s"), (3600, "2min")])
def test_transactions_of_a_server_may_be_idle_for_less_time(
    settings: Settings, seconds: int, idle: str
) -> None:
    settings.PLAYHEAD_TRANSACTION_SECONDS = seconds
    limit_transactions()
    connection.close()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == (idle,)
    finally:
        connection_created.disconnect(limit_idle_time)
        connection.close()


@pytest.mark.usefixtures("failing")
def test_a_statement_of_a_request_has_a_time_limit(run: Agent, client: Client, settings: Settings) -> None:
    before_each_entry("PERFORM pg_sleep(30)")
    settings.PLAYHEAD_STATEMENT_SECONDS = 1
    wsgi._application()  # the limit is that of a web process
    connection.close()
    try:
        started = time.monotonic()
        refused = run.post("/entries", {"entries": [ask()]})
        assert time.monotonic() - started < 15
    finally:
        connection_created.disconnect(limit_run_time)
        connection_created.disconnect(limit_idle_time)
        connection.close()
    assert_problem(refused, 503, "too long for one statement")
    assert refused.headers["Retry-After"] == "10"
    assert client.get("/readyz").json()["parts"]["database"] == "ok"
    assert not Entry.objects.exists()


def test_servers_that_start_wait_for_each_other_without_limit(short_waits: None) -> None:
    with startup_lock(), connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("0",)


def test_reads_do_not_wait_for_a_row_that_they_only_update(run: Agent, alice: Agent) -> None:
    """The time at which a key was last used, and the rows that a worker adds to the index of searches."""
    run.append(ask("find the wombat"))
    assert alice.get("/search?q=wombat")["up_to_date"] is True
    run.append(ask("and the badger"))
    ApiKey.objects.update(last_used_at=None)
    with connection.copy().cursor() as other:
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM historyapp_searchstep FOR UPDATE")
        other.execute("SELECT 1 FROM historyapp_apikey FOR UPDATE")
        started = time.monotonic()
        page = alice.get("/search?q=wombat")
        assert time.monotonic() - started < 3
        assert (len(page["items"]), page["up_to_date"]) == (1, False)
        other.execute("ROLLBACK")
        other.connection.close()
    assert alice.get("/search?q=badger")["up_to_date"] is True


def test_a_model_call_holds_no_connection_while_the_model_works(
    run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 slow calls of one process would use most of the 100 connections that PostgreSQL has by default."""
    run.append(ask("find it"))
    loopback.steps += [Refusal(500), Answer(text="All is well.")]
    held: list[object] = []

    def watched(request: ModelRequest, **options: Any) -> Iterator[ModelOutputDelta]:
        held.append(connection.connection)
        for delta in call_model(request, **options):
            yield delta
            held.append(connection.connection)

    monkeypatch.setattr(model_calls, "call_model", watched)
    retries = RetryPolicy(sleep=lambda _: held.append(connection.connection), random=lambda: 0.0)
    monkeypatch.setattr(model_calls, "RETRIES", retries)
    answered = run.post("/calls", {"model": "gpt-5"})
    assert answered.status == 200
    assert len(held) > 4
    assert set(held) == {None}
    assert run.get()["head"] == 2


@pytest.fixture
def stopped_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection leads to an address at which no server listens."""
    connection.close()
    with socket.socket() as taken, monkeypatch.context() as patch:
        taken.bind(("127.0.0.1", 0))
        patch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        patch.setitem(connection.settings_dict, "PORT", taken.getsockname()[1])
        yield


def test_an_unreachable_server_is_reported_everywhere(
    run: Agent, client: Client, stopped_server: None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        refused = run.post("/entries", {"entries": [ask()]})
        assert_problem(refused, 503, "does not answer")
        assert refused["type"].endswith("#database-unreachable")
    client.cookies["playhead_session"] = "a" * 32
    client.raise_request_exception = False
    page = client.get("/")
    assert (page.status_code, page.headers["Retry-After"]) == (503, "2")
    assert b"Database unreachable" in page.content
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["parts"]["database"]) == (503, "database-unreachable")
    logged = [record for record in caplog.records if record.name == "historyapp.services.faults"]
    assert len(logged) == 1, "once a minute"


def test_readyz_reports_a_server_that_is_stopped_within_seconds(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json()["parts"]["database"] == "ok"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and says nothing
        monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        monkeypatch.setitem(connection.settings_dict, "PORT", silent.getsockname()[1])
        with ThreadPoolExecutor(4) as threads:
            started = time.monotonic()
            probes = [threads.submit(client.get, "/readyz") for _ in range(4)]
            answers = [(probe.result().status_code, probe.result().json()) for probe in probes]
        assert time.monotonic() - started < 2 * health.ANSWER_SECONDS
        unknown = dict.fromkeys(("broker", "worker", "lag"), "unknown")
        parts = {"database": "database-unreachable", **unknown, "disk": "ok"}
        assert answers == [(503, {"status": "unavailable", "parts": parts})] * 4
        [check] = [thread for thread in threading.enumerate() if thread.name == "readyz"]
    check.join(10)
    monkeypatch.undo()
    assert client.get("/readyz").json()["parts"]["database"] == "ok"


def test_readyz_does_not_depend_on_older_connections(client: Client) -> None:
    """A firewall may have dropped them silently: their statements then wait for a minute."""

    def fail(*_: Any) -> None:
        raise AssertionError("the connection of the request's thread is used")

    with connection.execute_wrapper(fail):
        assert client.get("/readyz").status_code == 200


def test_a_start_waits_for_a_server_that_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = MigrationRecorder.applied_migrations
    attempts, started, output = list[str](), list[ServerPlan](), io.StringIO()

    def applied(recorder: MigrationRecorder) -> object:
        attempts.append("")
        if len(attempts) <= 2:
            execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return usual(recorder)

    monkeypatch.setattr(MigrationRecorder, "applied_migrations", applied)
    monkeypatch.setattr("historyapp.management.commands.up.become_supervisor", started.append)
    call_command("up", "--port", "0", "--no-demo", stderr=output)
    assert len(attempts) == 3
    assert [plan.ip for plan in started] == ["127.0.0.1"]
    assert output.getvalue().count("Waiting up to 10 s for the database: ") == 1
