"""The order in which the threads of workers take runs."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from historyapp import compression_workers
from historyapp.compression_workers import RunScheduler
from historyapp.models import CompressionRun, Project
from historyapp.services.append import append
from historyapp.services.compression import start
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import due_sessions, start_run
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db

Queue = Callable[[str, int], list[UUID]]


@pytest.fixture
def queue() -> Queue:
    """Requests runs of a project, which is made if necessary."""

    def queue(name: str, runs: int) -> list[UUID]:
        project, _ = Project.objects.get_or_create(name=name)
        ids = []
        for _ in range(runs):
            session = create_session(project)
            append(project, session.pk, [draft for _ in range(3) for draft in (act("read"), ok())])
            request = RunRequest("simple_extract", from_step=1, to_step=3)
            ids.append(start_run(project, session.pk, request).run.pk)
        return ids

    return queue


def _end(scheduler: RunScheduler, run: UUID | None) -> None:
    assert run is not None
    CompressionRun.objects.filter(pk=run).update(state="succeeded")
    scheduler.end(run)


def test_a_choice_reads_a_limited_number_of_runs_of_each_project(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression_workers, "MAX_READ", 2)
    ours, theirs = queue("ours", 3), queue("theirs", 1)
    scheduler = RunScheduler()
    assert [run.id for run in scheduler.active()] == [*ours[:2], *theirs]
    _end(scheduler, scheduler.take())
    assert [run.id for run in scheduler.active()] == [*ours[1:], *theirs]


def test_a_run_of_another_project_is_next_however_many_runs_the_first_has(queue: Queue) -> None:
    ours = queue("ours", 60)
    scheduler = RunScheduler()
    threads = [scheduler.take() for _ in range(4)]
    assert threads == ours[:4], "a project alone uses all threads, in the order of its requests"
    theirs = queue("theirs", 2)
    _end(scheduler, threads[0])
    assert scheduler.take() == theirs[0]
    _end(scheduler, threads[1])
    assert scheduler.take() == theirs[1], "two threads each"
    _end(scheduler, threads[2])
    assert scheduler.take() == ours[4]


def test_a_project_without_a_thread_gets_the_place_of_a_run_that_waits_for_its_last_calls(
    queue: Queue,
) -> None:
    ours = queue("ours", 6)
    scheduler = RunScheduler()
    threads = [scheduler.take() for _ in range(4)]
    theirs, third = queue("theirs", 2), queue("third", 1)
    assert scheduler.take() is None, "all four work"
    scheduler.without_thread = frozenset(CompressionRun.objects.values_list("project_id", flat=True))
    assert all(scheduler.has_too_many(run) for run in ours[:4])
    scheduler.mark_ending(ours[0])
    assert scheduler.take() == theirs[0]
    assert scheduler.take() is None, "three of ours and one of theirs work"
    for run in ours[1:3]:
        scheduler.mark_ending(run)
    assert not scheduler.has_too_many(ours[3]), "each project keeps one thread"
    assert scheduler.take() == third[0]
    assert scheduler.take() is None, "only projects without a thread get more than four"
    for started in threads[:3]:
        _end(scheduler, started)
    assert scheduler.take() == ours[4], "the project whose last slice is the longest ago"


def test_projects_with_equally_many_threads_take_turns(queue: Queue) -> None:
    runs = {name: queue(name, 3) for name in ("a", "b", "c")}
    project_of = {run: name for name, ids in runs.items() for run in ids}
    scheduler = RunScheduler()
    taken = []
    for _ in range(9):
        run = scheduler.take()
        assert run is not None
        taken.append(run)
        _end(scheduler, run)
    assert [project_of[run] for run in taken] == ["a", "b", "c"] * 3
    assert [run for run in taken if project_of[run] == "a"] == runs["a"]
    assert scheduler.take() is None


def test_a_run_that_has_yielded_is_behind_the_other_runs_of_its_project(queue: Queue) -> None:
    long, short, last = queue("ours", 3)
    scheduler = RunScheduler()
    assert scheduler.take() == long
    scheduler.end(long)
    assert list(scheduler.candidates()) == [short, last, long]
    (later,) = queue("ours", 1)
    assert list(scheduler.candidates()) == [short, last, long, later]


def test_a_run_that_must_wait_is_not_taken_and_delays_no_other(queue: Queue) -> None:
    failing, other = queue("ours", 2)
    scheduler = RunScheduler()
    assert scheduler.take() == failing
    scheduler.end(failing, wait=timedelta(minutes=1))
    assert scheduler.take() == other
    assert scheduler.take() is None


def test_a_clock_that_was_set_back_holds_no_run(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = queue("ours", 2)
    scheduler, now = RunScheduler(), timezone.now
    with monkeypatch.context() as ahead:
        ahead.setattr(timezone, "now", lambda: now() + timedelta(hours=1))
        assert scheduler.take() == first
        scheduler.end(first)
    assert set(scheduler.candidates()) == {first, second}
    assert scheduler.take() == second
    assert scheduler.take() == first


def test_a_second_worker_takes_a_run_only_while_items_are_left(queue: Queue) -> None:
    (run,) = queue("ours", 1)
    plan(run)
    assert len(claim(run, uuid4(), 2)) == 2
    assert list(RunScheduler().candidates()) == [run]
    assert len(claim(run, uuid4(), 2)) == 1
    assert list(RunScheduler().candidates()) == []


def test_runs_are_found_behind_many_that_other_workers_have(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.fair_scheduler.BATCH_SIZE", 2)
    *claimed, waiting = queue("ours", 6)
    for run in claimed:
        plan(run)
        claim(run, uuid4(), 10)
    assert RunScheduler().take() == waiting


def _due(name: str, sessions: int) -> set[UUID]:
    project, _ = Project.objects.get_or_create(name=name)
    made = [create_session(project) for _ in range(sessions)]
    for session in made:
        session.compression_due = True
        session.save(update_fields=["compression_due"])
    return {session.pk for session in made}


def test_projects_have_equal_shares_of_the_due_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "MAX_DUE_SESSIONS", 6)
    ours, theirs = _due("ours", 10), _due("theirs", 2)
    due = due_sessions()
    assert (len(ours & {*due}), theirs & {*due}) == (3, theirs)
    assert [session in theirs for session in due[:4]] in ([False, True] * 2, [True, False] * 2), "in turns"


def test_a_project_with_many_automatic_runs_starts_no_more(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "MAX_AUTOMATIC_RUNS", 4)
    ours, theirs = _due("ours", 10), _due("theirs", 1)
    queue("ours", 3)
    assert len(ours & set(due_sessions())) == 4, "runs that were requested do not count"
    CompressionRun.objects.update(automatic=True)
    assert len(ours & set(due_sessions())) == 1
    queue("ours", 1)
    CompressionRun.objects.update(automatic=True)
    assert set(due_sessions()) == theirs
    CompressionRun.objects.update(state="succeeded")
    assert len(ours & set(due_sessions())) == 4
