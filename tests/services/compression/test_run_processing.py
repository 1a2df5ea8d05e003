"""How a worker processes a run: cancellation, a silent provider, a deleted run, other workers."""

import concurrent.futures
import itertools
import threading
import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import CompressionItem, CompressionRun, Project, Summary
from historyapp.models.database_clock import claim_now
from historyapp.services.compression import active_runs
from historyapp.services.compression import run as run_module
from historyapp.services.compression import store as store_module
from historyapp.services.compression.claims import claim, release
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, retry_run, start_run
from historyapp.services.compression.store import Stored, store_results
from historyapp.services.compression.summarise import ItemResult
from historyapp.services.summary_writers.writers import InlineWriter
from tests.llm.loopback import Answer, Loopback
from tests.services.compression.conftest import Record
from tests.services.compression.threads import run_thread

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def test_queued_model_calls_are_not_made_once_their_run_is_cancelled(
    record: Record, project: Project, loopback: Loopback
) -> None:
    request = RunRequest(strategy="episode_summary", model="gpt-5-mini")
    run = start_run(project, record(64).pk, request).run
    started = threading.Event()

    def answer(_: object) -> Answer:
        started.set()
        return Answer(text="Read it.", pause=0.5)

    loopback.default = answer
    workers = [run_thread(run.pk) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert started.wait(60)
    cancel_run(run)
    for worker in workers:
        worker.join(30)
    # Of 32 claimed items: those in progress, and those started within the second between two checks.
    assert len(loopback.requests) <= 16
    cancelled = CompressionRun.objects.get(pk=run.pk)
    assert cancelled.state == "cancelled"
    assert cancelled.done == cancelled.calls == Summary.objects.count()
    assert not cancelled.items.filter(state="claimed").exists()


def test_a_run_without_a_model_does_not_wait_for_a_provider_that_is_silent(
    record: Record, project: Project, loopback: Loopback
) -> None:
    silent = start_run(project, record(20).pk, RunRequest(strategy="episode_summary", model="gpt-5-mini")).run
    requests_received = threading.Semaphore(0)
    may_continue = threading.Event()

    def answer(_: object) -> Answer:
        requests_received.release()
        may_continue.wait(30)
        return Answer(text="Read it.")

    loopback.default = answer
    worker = run_thread(silent.pk)
    worker.start()
    assert all(requests_received.acquire(timeout=60) for _ in range(settings.PLAYHEAD_CONCURRENCY))
    run = start_run(project, record(6).pk, RunRequest(strategy="simple_extract")).run
    extracting = run_thread(run.pk)
    extracting.start()
    extracting.join(10)
    state = CompressionRun.objects.get(pk=run.pk).state
    may_continue.set()
    worker.join(30)
    extracting.join(30)
    assert state == "succeeded"


def test_a_run_that_must_stop_returns_its_claims_while_its_model_calls_run(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = start_run(project, record(60).pk, RunRequest(strategy="episode_summary", model="gpt-5-mini")).run
    requests_received = threading.Semaphore(0)
    may_continue, must_stop, was_asked = threading.Event(), threading.Event(), threading.Event()

    def answer(_: object) -> Answer:
        requests_received.release()
        may_continue.wait(30)
        return Answer(text="Read it.")

    def should_stop() -> bool:
        if must_stop.is_set():
            was_asked.set()
        return must_stop.is_set()

    loopback.default = answer
    worker = run_thread(run.pk, should_stop)
    worker.start()
    assert all(requests_received.acquire(timeout=60) for _ in range(settings.PLAYHEAD_CONCURRENCY))
    must_stop.set()
    assert was_asked.wait(10)
    until = time.monotonic() + 10
    while run.items.filter(state="claimed").count() > settings.PLAYHEAD_CONCURRENCY:
        assert time.monotonic() < until
        time.sleep(0.05)
    may_continue.set()
    worker.join(30)
    assert run.items.filter(state="done").count() == settings.PLAYHEAD_CONCURRENCY
    assert not run.items.filter(state="claimed").exists()


def test_a_run_whose_calls_wait_for_those_of_others_gives_up_its_thread(
    record: Record, project: Project, loopback: Loopback
) -> None:
    """So at most ``PLAYHEAD_CONCURRENCY`` threads wait for the calls of a provider, whatever the projects."""
    request = RunRequest(strategy="episode_summary", model="gpt-5-mini")
    busy, other = (start_run(project, record(20).pk, request).run for _ in range(2))
    requests_received = threading.Semaphore(0)
    may_continue, must_stop = threading.Event(), threading.Event()

    def answer(_: object) -> Answer:
        requests_received.release()
        may_continue.wait(30)
        return Answer(text="Read it.")

    loopback.default = answer
    threads = [run_thread(run.pk, must_stop.is_set) for run in (busy, other)]
    threads[0].start()
    assert all(requests_received.acquire(timeout=60) for _ in range(settings.PLAYHEAD_CONCURRENCY))
    threads[1].start()
    until = time.monotonic() + 10
    while not other.items.filter(state="claimed").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    must_stop.set()
    threads[1].join(10)
    was_waiting = threads[1].is_alive()
    may_continue.set()
    for thread in threads:
        thread.join(30)
    assert not was_waiting
    assert set(other.items.values_list("state", flat=True)) == {"waiting"}
    assert len(loopback.requests) == settings.PLAYHEAD_CONCURRENCY


def test_a_run_that_was_deleted_meanwhile_ends_without_an_error(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(8).pk, RunRequest("simple_extract")).run

    def planned(run_id: UUID) -> bool:
        CompressionRun.objects.filter(pk=run_id).delete()
        return True

    monkeypatch.setattr(run_module, "plan", planned)
    process_run(run.pk)
    assert not Summary.objects.exists()


@pytest.mark.parametrize("error", [KeyError("nobody thought of this"), DataError("out of range")])
def test_a_run_that_cannot_continue_gives_the_reason_and_can_be_retried(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = start_run(project, record(8).pk, RunRequest("simple_extract")).run

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(run_module, "Summariser", fail)
        process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.total, run.done) == ("failed", 4, 0)
    assert f"The compression stopped because of an unexpected {type(error).__name__}" in run.note
    process_run(retry_run(run).pk)
    run.refresh_from_db()
    assert (run.state, run.done) == ("succeeded", 4)
    assert "unexpected" not in run.note


def test_a_run_is_not_ended_while_another_worker_holds_items(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(8).pk, RunRequest("simple_extract")).run
    plan(run.pk)
    claim(run.pk, uuid4(), 1)

    def fail(*_: object) -> None:
        raise ImportError("no spaCy here")

    monkeypatch.setattr(run_module, "Summariser", fail)
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "running"


def test_paid_summaries_wait_for_a_locked_database(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise their steps would be summarised, and paid for, once more."""
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0.01)
    failures = iter([OperationalError("database is locked"), InterfaceError("connection closed")])

    def store(*arguments: Any) -> Stored:
        if (error := next(failures, None)) is not None:
            raise error
        return store_results(*arguments)

    monkeypatch.setattr(store_module, "store_results", store)
    run = start_run(project, record(8).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    process_run(run.pk)
    ended = CompressionRun.objects.get(pk=run.pk)
    assert next(failures, None) is None
    assert (ended.state, ended.done, ended.calls) == ("succeeded", ended.total, len(loopback.requests))
    assert ended.total == len(loopback.requests)


@pytest.mark.parametrize(("access", "call"), [("claim", 2), ("read_jobs", 2), ("renew", 1), ("contains", 1)])
def test_no_model_call_is_made_twice_because_the_database_could_not_be_reached(
    record: Record,
    project: Project,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    access: str,
    call: int,
) -> None:
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    owner: Any = active_runs.ActiveRuns if access == "contains" else run_module
    real, calls = getattr(owner, access), itertools.count(1)

    def fail_once(*arguments: Any) -> Any:
        if next(calls) == call:
            raise OperationalError("the connection is closed")
        return real(*arguments)

    monkeypatch.setattr(owner, access, fail_once)
    run = start_run(project, record(12).pk, RunRequest(strategy="episode_summary", model="gpt-5-mini")).run
    process_run(run.pk)
    run.refresh_from_db()
    assert next(calls) > call
    assert (run.state, len(loopback.requests)) == ("succeeded", run.total)


def test_paid_results_wait_for_the_database_longer_than_a_claim(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "STORE_SECONDS", 0)
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    failures = iter([OperationalError("the disk is full")] * 9)

    def store(*arguments: Any) -> Stored:
        if (error := next(failures, None)) is not None:
            CompressionItem.objects.filter(state="claimed").update(claimed_until=claim_now())
            raise error
        return store_results(*arguments)

    monkeypatch.setattr(store_module, "store_results", store)
    run = start_run(project, record(8).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    process_run(run.pk)
    assert next(failures, None) is None
    run.refresh_from_db()
    assert (run.state, len(loopback.requests)) == ("succeeded", run.total)


@pytest.mark.usefixtures("loopback")
def test_a_run_that_waited_for_the_database_goes_on_soon(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pauses are in proportion to the time that a write takes."""
    run = start_run(project, record(8).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    waited, failures = [0.0], iter([OperationalError("the disk is full")])

    def store(*arguments: Any) -> Stored:
        if (error := next(failures, None)) is not None:
            waited[0] += 130
            raise error
        return store_results(*arguments)

    monkeypatch.setattr(store_module, "store_results", store)
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    worker = run_module._RunWorker(run.pk, lambda: False, InlineWriter(), lambda: False)
    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + waited[0])
    worker._head, worker._results = run.head, [ItemResult(0)]
    worker._write()
    assert waited == [130]
    assert worker._next_write <= time.monotonic() + run_module.MAX_WRITE_PAUSE


def test_a_run_that_must_stop_keeps_its_results_if_its_other_items_cannot_be_released(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    failures = iter([OperationalError("the disk is full")])

    def release_late(*arguments: Any) -> None:
        if (error := next(failures, None)) is not None:
            raise error
        release(*arguments)

    monkeypatch.setattr(run_module, "release", release_late)
    run = start_run(project, record(40).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    process_run(run.pk, lambda: bool(loopback.requests))
    assert next(failures, None) is None
    assert run.items.filter(state="done").count() == len(loopback.requests) > 0


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_run_gives_up_if_the_database_stays_locked(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, is_ending: bool
) -> None:
    """After an hour, or two minutes if its process ends."""
    monkeypatch.setattr(run_module, "STORE_SECONDS" if is_ending else "KEEP_SECONDS", 0.05)
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0.01)

    def fail(*_: Any) -> Stored:
        raise OperationalError("database is locked")

    monkeypatch.setattr(store_module, "store_results", fail)
    run = start_run(project, record(8).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    with pytest.raises(OperationalError):
        process_run(run.pk, is_ending=lambda: is_ending)
    assert CompressionRun.objects.get(pk=run.pk).active


@pytest.mark.skipif("config.getoption('database') != 'postgres'", reason="SQLite limits no connections")
def test_a_run_that_waits_for_a_model_has_no_connection(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(20).pk, RunRequest(strategy="episode_summary", model="gpt-5-mini")).run
    connected: list[bool] = []

    def wait(*arguments: Any) -> Any:
        connected.append(connection.connection is not None)
        return concurrent.futures.wait(*arguments)

    loopback.default = lambda _: Answer(text="Read it.", pause=0.2)
    monkeypatch.setattr(run_module, "wait", wait)
    process_run(run.pk)
    assert CompressionRun.objects.get(pk=run.pk).state == "succeeded"
    assert set(connected) == {False}


def test_waiting_runs_of_a_process_share_one_check_whether_they_were_cancelled(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_runs, "CANCEL_CHECK_SECONDS", 60)
    request = RunRequest(strategy="simple_extract")
    ours, theirs = (start_run(project, record(6).pk, request).run for _ in range(2))
    active = active_runs.ActiveRuns()
    assert active.contains(ours.pk)
    assert active.contains(theirs.pk), "a run that is new is read at once"
    with CaptureQueriesContext(connection) as queries:
        assert all(active.contains(run.pk) for run in (ours, theirs))
    assert not queries
    cancel_run(ours)
    monkeypatch.setattr(active, "_next_check", 0)
    with CaptureQueriesContext(connection) as queries:
        assert not active.contains(ours.pk)
        assert active.contains(theirs.pk)
    assert len(queries) == 1
