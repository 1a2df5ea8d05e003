"""What a worker does by the clock."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import OperationalError

from historyapp import compression_workers, enqueue, tasks, worker
from historyapp.duties import Duties
from historyapp.models import CompressionRun, Episode, FiguresCheckpoint, Project, Session, StaleOutcomes
from historyapp.services import outcomes
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import compress_if_due, due_sessions, start_run
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


def record_messages_to_workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of the messages that are sent from now on, which are not put into the queue."""
    sent: list[str] = []
    monkeypatch.setattr(enqueue, "task_message", lambda task, argument, queue: argument)
    monkeypatch.setattr(enqueue, "put", lambda queue, *arguments: sent.extend(arguments))
    return sent


def test_a_due_session_sends_its_messages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    sent = record_messages_to_workers(monkeypatch)
    for _ in range(3):
        tasks.start_due_runs()
    (run,) = CompressionRun.objects.filter(session=session)
    assert sent == [str(run.pk)]


def test_starting_runs_ends_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="ours")
    sessions = {create_session(project).pk for _ in range(3)}
    Session.objects.update(compression_due=True)
    monkeypatch.setattr(tasks, "_STARTING_SECONDS", 0.05)
    tried = list[UUID]()

    def start_slowly(session: UUID) -> None:
        tried.append(session)
        time.sleep(0.1)

    monkeypatch.setattr(tasks, "compress_if_due", start_slowly)
    tasks.start_due_runs()
    assert len(tried) == 1
    assert {*due_sessions()} == sessions, "the clock continues with those that are due then"


def test_a_session_whose_run_cannot_be_started_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project.objects.create(name="ours")
    sessions = [create_session(project) for _ in range(3)]
    for session in sessions:
        append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    damaged = sessions[0].pk

    def fail(session: UUID) -> CompressionRun | None:
        if session == damaged:
            raise OverflowError("too large")
        return compress_if_due(session)

    monkeypatch.setattr(tasks, "compress_if_due", fail)
    sent = record_messages_to_workers(monkeypatch)
    tasks.start_due_runs()
    assert set(sent) == {str(run) for run in CompressionRun.objects.values_list("pk", flat=True)}
    assert len(sent) == 2
    assert str(damaged) in caplog.text
    assert due_sessions() == [], "it is due again after its next append"
    append(project, damaged, [act("read", path="a.py"), ok()])
    assert due_sessions() == [damaged]


def test_sessions_stay_due_while_the_database_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    session = create_session(Project.objects.create(name="ours"))
    type(session).objects.update(compression_due=True)
    locked = OperationalError("database is locked")
    monkeypatch.setattr(tasks, "compress_if_due", lambda session: raise_error(locked))
    with pytest.raises(OperationalError):
        tasks.start_due_runs()
    assert due_sessions() == [session.pk]


def raise_error(error: Exception) -> Any:
    raise error


CLOCK = ("end_waiting_claims", "send_due_webhooks", "request_due_runs", "find_waiting_runs",
         "find_waiting_bulk_actions", "find_waiting_evaluations", "find_waiting_indexes",
         "projects_to_index", "follow_changes", "sweep")  # fmt: skip


@pytest.mark.parametrize("broken", CLOCK[:-1])
def test_a_duty_of_the_clock_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    called: list[str] = []

    def record(name: str) -> tuple[()]:
        called.append(name)
        return ()

    for name in CLOCK:
        monkeypatch.setattr(worker, name, lambda *_, name=name: record(name))
    monkeypatch.setattr(worker, broken, lambda *_: raise_error(OverflowError("too large")))
    monkeypatch.setattr(worker, "stop_worker", lambda: pytest.fail("its work is not done"))
    worker._look(idle_seconds=0)()
    assert set(called) == {*CLOCK} - {broken}


def test_the_clock_does_not_wait_for_automatic_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite the thread that starts them pauses after each write, and webhooks wait for the clock."""
    session = create_session(Project.objects.create(name="ours"))
    type(session).objects.update(compression_due=True)
    started, may_end = threading.Event(), threading.Event()

    def start(id: UUID) -> None:
        started.set()
        may_end.wait(20)
        type(session).objects.update(compression_due=False)

    monkeypatch.setattr(tasks, "compress_if_due", start)
    try:
        tasks.request_due_runs()
        assert started.wait(20)
        assert due_sessions()
        assert tasks.is_busy()
    finally:
        may_end.set()
        wait_for_chores()
    assert not due_sessions()


def test_a_worker_that_ends_starts_no_more_automatic_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    project, started, stopping = Project.objects.create(name="ours"), list[UUID](), threading.Event()
    for _ in range(3):
        create_session(project)
    Session.objects.update(compression_due=True)

    def start(id: UUID) -> None:
        started.append(id)
        stopping.set()

    monkeypatch.setattr(tasks, "stopping", stopping)
    monkeypatch.setattr(tasks, "compress_if_due", start)
    tasks.start_due_runs()
    assert len(started) == 1


SWEPT = ("_start_chores", "prune_changes", "prune_deliveries",
         "prune_bulk_actions", "prune_evaluations")  # fmt: skip


@pytest.mark.parametrize("broken", SWEPT)
def test_a_part_of_a_sweep_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    called: list[str] = []
    monkeypatch.setattr(tasks, "_sweep_duties", Duties())
    for name in SWEPT:
        monkeypatch.setattr(tasks, name, lambda *_, name=name: called.append(name))
    with monkeypatch.context() as patch:
        patch.setattr(tasks, broken, lambda *_: raise_error(OverflowError("too large")))
        assert not tasks.sweep()
    assert set(called) == {*SWEPT} - {broken}
    assert tasks.sweep(), "the next one succeeds"


def wait_for_chores() -> None:
    """Waits until the threads for chores have ended."""
    for threads in tasks.CHORES.values():
        threads.wait()


def test_a_sweep_computes_missing_outcomes() -> None:
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [act("bash", command="ls"), ok()])
    Episode.objects.update(kind="", target="")
    StaleOutcomes.objects.create(session=session)
    tasks.sweep()
    wait_for_chores()
    assert Episode.objects.get().target == "ls"
    assert not StaleOutcomes.objects.exists()
    assert not tasks.is_busy()


def test_a_sweep_counts_figures_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.services.figures.run_figures.COUNT_AHEAD_FROM", 3)
    monkeypatch.setattr("historyapp.services.figures.run_figures.INTERVAL", 2)
    session = create_session(Project.objects.create(name="ours"))
    append(session.project, session.pk, [draft for _ in range(5) for draft in (act("bash"), ok())])
    tasks.sweep()
    wait_for_chores()
    assert FiguresCheckpoint.objects.filter(session=session).count() == 2
    assert not tasks.is_busy()


def test_a_session_whose_figures_cannot_be_counted_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damaged, other = uuid4(), uuid4()
    counted: list[UUID] = []

    def count(session: UUID, should_stop: Callable[[], bool]) -> None:
        if session == damaged:
            raise ValueError("damaged")
        counted.append(session)

    monkeypatch.setattr(tasks, "sessions_to_count", lambda: [damaged, other])
    monkeypatch.setattr(tasks, "count_ahead", count)
    tasks.count_figures()
    assert counted == [other]


def test_a_chore_is_done_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "compute_outcomes", lambda stop: pytest.fail("another thread is at it"))
    monkeypatch.setattr(tasks, "_chores", {"outcomes"})
    assert tasks.is_busy()
    tasks.compute_outcomes()


def test_outcomes_wait_while_a_run_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    StaleOutcomes.objects.create(session=create_session(Project.objects.create(name="ours")))
    waiting = threading.Event()
    monkeypatch.setattr(compression_workers.LOCAL_RUNS, "waiting", waiting)
    waiting.set()
    tasks.compute_outcomes()
    assert StaleOutcomes.objects.exists()


def _wanted(project: Project) -> CompressionRun:
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    return start_run(project, session.pk, RunRequest("simple_extract")).run


def test_a_worker_on_demand_stops_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    monkeypatch.setattr(worker, "stop_worker", lambda: stopped.append(True))
    record_messages_to_workers(monkeypatch)
    monkeypatch.setattr(compression_workers.LOCAL_RUNS.threads, "start", lambda: True)
    run = _wanted(Project.objects.create(name="ours"))
    look = worker._look(idle_seconds=0)
    look()
    assert stopped == [], "a run waits"
    tasks.CHORES["automatic runs"].wait()  # the session is due too
    CompressionRun.objects.filter(pk=run.pk).update(state="cancelled")
    look()
    assert stopped == [True]


def test_a_worker_started_by_hand_never_stops_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "stop_worker", lambda: pytest.fail("it ended"))
    worker._look(idle_seconds=None)()


def test_only_the_files_of_an_older_queue_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "PLAYHEAD_HOME", tmp_path)
    worker._remove_file_queue()
    for name in ("messages/1_a.playhead.msg", "control/playhead.exchange", "control/.exchange"):
        (tmp_path / "queue" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "queue" / name).write_text("[half")
    worker._remove_file_queue()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "queue" / "messages").mkdir(parents=True)
    (tmp_path / "queue" / "messages" / "mine.txt").write_text("mine")
    worker._remove_file_queue()
    assert [path.name for path in tmp_path.rglob("*.*")] == ["mine.txt"]
