"""The threads of a worker that work on compression runs."""

import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from historyapp import compression_workers, tasks
from historyapp.compression_workers import RUNS_AT_ONCE
from historyapp.models import CompressionRun, Project
from historyapp.services.append import append
from historyapp.services.compression import run as run_module
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(run_module, "BUSY_WRITE_PAUSE", 0.02)
    lanes = (
        compression_workers.RunLane("runs", compression_workers.MAX_LOCAL_THREADS, calls_model=False),
        compression_workers.RunLane(
            "runs with a model", compression_workers.MAX_MODEL_THREADS, calls_model=True
        ),
    )
    for name, value in (("LOCAL_RUNS", lanes[0]), ("MODEL_RUNS", lanes[1]), ("LANES", lanes)):
        monkeypatch.setattr(compression_workers, name, value)
    yield
    for lane in lanes:
        lane.threads.wait()


def _run(project: Project) -> CompressionRun:
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    return start_run(project, session.pk, RunRequest("simple_extract", from_step=1, to_step=4)).run


def test_one_message_works_on_all_runs_and_on_another_project_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    runs = [_run(ours), _run(ours), _run(ours), _run(theirs)]
    begun: list[UUID] = []
    process_run = run_module.process_run

    def record(run: UUID, *arguments: object) -> None:
        begun.append(run)
        process_run(run)

    monkeypatch.setattr(run_module, "process_run", record)
    compression_workers.LOCAL_RUNS.work()
    assert begun == [runs[number].pk for number in (0, 3, 1, 2)]
    assert set(CompressionRun.objects.values_list("state", flat=True)) == {"succeeded"}


def test_a_run_yields_to_a_waiting_run_after_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="ours")
    long, short = _run(project), _run(project)
    monkeypatch.setattr(compression_workers, "SLICE_SECONDS", 0)
    compression_workers.LOCAL_RUNS.waiting.set()
    assert compression_workers.LOCAL_RUNS.work_for_one_slice(long.pk)
    long.refresh_from_db()
    assert (long.state, long.planned) == ("queued", False), "planning yields too"
    short.delete()
    plan(long.pk)
    claim(long.pk, uuid4(), 1)
    compression_workers.LOCAL_RUNS.waiting.clear()
    compression_workers.LOCAL_RUNS.work_for_one_slice(long.pk)
    assert long.items.filter(state="done").count() == 3, "all but the one that another is at work on"


def test_a_turn_that_must_end_does_not_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    run, answers = _run(Project.objects.create(name="ours")), list[bool]()

    def process(run: UUID, should_stop: Callable[[], bool], *_: object) -> None:
        answers.append(should_stop())
        compression_workers.LOCAL_RUNS.waiting.clear()
        answers.append(should_stop())

    monkeypatch.setattr(run_module, "process_run", process)
    monkeypatch.setattr(compression_workers, "SLICE_SECONDS", 0)
    compression_workers.LOCAL_RUNS.waiting.set()
    compression_workers.LOCAL_RUNS.work_for_one_slice(run.pk)
    assert answers == [True, True]


def test_a_run_gives_its_thread_early_to_a_project_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    runs = [_run(ours) for _ in range(3)]
    monkeypatch.setattr(compression_workers, "SHORT_SLICE_SECONDS", 0)
    scheduler = compression_workers.LOCAL_RUNS.scheduler
    assert (scheduler.take(), scheduler.take()) == (runs[0].pk, runs[1].pk)
    monkeypatch.setattr(compression_workers.LOCAL_RUNS.threads, "start", lambda: False)
    compression_workers.find_waiting_runs()
    assert not scheduler.has_too_many(runs[0].pk), "its own project's runs wait for a whole slice"
    other = _run(theirs)
    compression_workers.find_waiting_runs()
    assert not compression_workers.LOCAL_RUNS.work_for_one_slice(runs[0].pk)
    scheduler.end(runs[0].pk, None)
    assert not scheduler.has_too_many(runs[1].pk), "each project keeps one thread"
    assert scheduler.take() == other.pk
    assert scheduler.take() == runs[0].pk, "it keeps its place"
    assert not scheduler.has_too_many(runs[0].pk), "the other project has a thread"
    assert compression_workers.LOCAL_RUNS.work_for_one_slice(runs[0].pk)
    runs[0].refresh_from_db()
    assert runs[0].state == "succeeded"


def test_runs_that_wait_for_a_slow_model_delay_no_other_project(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (Project.objects.create(name=name) for name in ("ours", "theirs"))
    slow = {_run(ours).pk for _ in range(5)}
    release, process_run = threading.Event(), run_module.process_run
    entered = threading.Semaphore(0)

    def process(run: UUID, should_stop: Callable[[], bool], *_: object) -> None:
        if run not in slow:
            process_run(run, should_stop)
            return
        entered.release()
        while not should_stop() and not release.is_set():
            time.sleep(0.01)
        release.wait(30)

    monkeypatch.setattr(run_module, "process_run", process)
    monkeypatch.setattr(compression_workers, "SHORT_SLICE_SECONDS", 0)
    try:
        compression_workers.find_waiting_runs()
        for _ in range(RUNS_AT_ONCE):
            assert entered.acquire(timeout=30)
        other, until = _run(theirs), time.monotonic() + 20
        while other.state != "succeeded":
            assert time.monotonic() < until
            compression_workers.find_waiting_runs()
            time.sleep(0.05)
            other.refresh_from_db()
        assert not entered.acquire(blocking=False), "no fifth run of the first project has begun"
    finally:
        release.set()
        CompressionRun.objects.filter(pk__in=slow).update(state="cancelled")


def test_slow_models_of_any_number_of_projects_delay_no_run_without_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = {_run(Project.objects.create(name=f"slow {number}")).pk for number in range(20)}
    CompressionRun.objects.filter(pk__in=slow).update(model="openai:gpt-5-mini")
    release, process_run = threading.Event(), run_module.process_run

    def process(run: UUID, should_stop: Callable[[], bool], *_: object) -> None:
        if run in slow:
            release.wait(60)
        else:
            process_run(run, should_stop)

    monkeypatch.setattr(run_module, "process_run", process)
    try:
        compression_workers.find_waiting_runs()
        other, until = _run(Project.objects.create(name="other")), time.monotonic() + 20
        while other.state != "succeeded":
            assert time.monotonic() < until
            compression_workers.find_waiting_runs()
            time.sleep(0.05)
            other.refresh_from_db()
        assert len(compression_workers.MODEL_RUNS.scheduler.projects) == RUNS_AT_ONCE
        compression_workers.find_waiting_runs()
        assert not compression_workers.LOCAL_RUNS.waiting.is_set()
    finally:
        CompressionRun.objects.filter(pk__in=slow).update(state="cancelled")
        release.set()


def test_messages_keep_no_task_thread_and_start_few_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise messages for runs of one project would delay all other tasks."""
    release, entered = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        entered.release()
        assert release.wait(30)

    run = _run(Project.objects.create(name="ours")).pk
    monkeypatch.setattr(compression_workers.LOCAL_RUNS.threads, "_work", work)
    for _ in range(100):
        tasks.compress(str(run))
    try:
        for _ in range(compression_workers.MAX_LOCAL_THREADS):
            assert entered.acquire(timeout=30)
        assert not compression_workers.start_compression_worker(run)
    finally:
        release.set()
    compression_workers.LOCAL_RUNS.threads.wait()
    assert not entered.acquire(blocking=False)
    assert compression_workers.start_compression_worker(run)
    assert not compression_workers.start_compression_worker(uuid4()), "the run was deleted"


def test_the_clock_starts_a_thread_for_each_run_without_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="ours")
    started: list[bool] = []
    monkeypatch.setattr(compression_workers.LOCAL_RUNS.threads, "start", lambda: started.append(True))
    compression_workers.find_waiting_runs()
    assert (started, compression_workers.LOCAL_RUNS.waiting.is_set()) == ([], False)
    for _ in range(6):
        _run(project)
    compression_workers.find_waiting_runs()
    assert (len(started), compression_workers.LOCAL_RUNS.waiting.is_set()) == (RUNS_AT_ONCE, True)


def test_a_run_that_cannot_be_stored_waits_while_others_are_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project.objects.create(name="ours")
    broken, other = _run(project), _run(project)

    def fail(run: UUID, *arguments: object) -> None:
        raise OperationalError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "process_run", fail)
        with pytest.raises(OperationalError):
            compression_workers.LOCAL_RUNS.work()
    assert list(compression_workers.LOCAL_RUNS.scheduler.candidates()) == [other.pk]
    assert not compression_workers.LOCAL_RUNS.scheduler.projects
    assert CompressionRun.objects.get(pk=broken.pk).state == "queued"
