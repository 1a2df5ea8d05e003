"""How the projects of a process share the threads for a provider's model calls."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from historyapp.models import CompressionRun, Project, Summary
from historyapp.services import model_call_threads
from historyapp.services.compression import provider_limits
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, start_run
from historyapp.services.model_call_threads import CallThreads, sleep
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.compression.conftest import Record
from tests.services.compression.threads import run_thread

OURS, THEIRS, OTHERS = uuid4(), uuid4(), uuid4()


class Calls:
    """Jobs that run until they are ended."""

    def __init__(self, limit: int) -> None:
        self.threads = CallThreads("test", limit)
        self.begun: list[UUID] = []
        self._ends: list[tuple[UUID, threading.Event]] = []

    def submit(self, project: UUID, count: int = 1) -> list[Future[None]]:
        return [self.threads.submit(project, lambda: self._work(project)) for _ in range(count)]

    def _work(self, project: UUID) -> None:
        end = threading.Event()
        self._ends.append((project, end))
        self.begun.append(project)
        end.wait(30)

    def end(self, project: UUID) -> None:
        """Ends the project's oldest running job."""
        found = next(item for item in self._ends if item[0] == project)
        self._ends.remove(found)
        found[1].set()

    def end_all(self) -> None:
        self.threads._jobs.clear()
        for _, end in self._ends:
            end.set()


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


@pytest.fixture
def four() -> Iterator[Calls]:
    made = Calls(4)
    yield made
    made.end_all()


def test_a_project_alone_uses_all_threads(four: Calls) -> None:
    four.submit(OURS, 6)
    assert eventually(lambda: len(four.begun) == 4)
    four.end(OURS)
    assert eventually(lambda: len(four.begun) == 5)


def test_a_project_without_a_call_gets_one_whatever_others_do(four: Calls) -> None:
    four.submit(OURS, 50)
    four.submit(THEIRS, 2)
    four.submit(OTHERS, 2)
    assert eventually(lambda: len(four.begun) == 6)
    time.sleep(0.1)
    assert four.begun == [*[OURS] * 4, THEIRS, OTHERS]


def test_the_project_with_the_fewest_calls_is_next(four: Calls) -> None:
    four.submit(OURS, 50)
    four.submit(THEIRS, 3)
    assert eventually(lambda: len(four.begun) == 5)
    for _ in range(2):
        four.end(OURS)
    assert eventually(lambda: len(four.begun) == 6)
    assert four.begun[-1] == THEIRS  # before 46 that waited longer
    four.end(OURS)  # now one of ours and two of theirs run
    assert eventually(lambda: len(four.begun) == 7)
    assert four.begun[-1] == OURS


def test_a_cancelled_call_takes_no_thread(four: Calls) -> None:
    four.submit(OURS, 4)
    cancelled, kept = four.submit(OURS, 2)
    assert cancelled.cancel()
    four.end(OURS)
    assert eventually(kept.running)
    assert len(four.begun) == 5


def test_a_call_that_sleeps_for_long_gives_its_slot_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    wake = threading.Event()
    monkeypatch.setattr(model_call_threads, "time", SimpleNamespace(sleep=lambda _: wake.wait(30)))
    threads = CallThreads("test", 4)
    slept = [threads.submit(OURS, lambda: sleep(25)) for _ in range(8)]
    # Two of the first four give their slots to two others, which may not do the same.
    assert eventually(lambda: sum(future.running() for future in slept) == 6)
    time.sleep(0.1)
    assert sum(future.running() for future in slept) == 6
    assert threads.submit(THEIRS, lambda: "made").result(10) == "made"
    wake.set()
    for future in slept:
        future.result(10)
    assert eventually(lambda: not threads._running)


def test_a_call_that_fails_gives_its_thread_back() -> None:
    threads = CallThreads("test", 1)
    failed = [threads.submit(OURS, lambda: 1 // 0) for _ in range(3)]
    for future in failed:
        assert isinstance(future.exception(10), ZeroDivisionError)
    assert threads.submit(OURS, lambda: "made").result(10) == "made"


@pytest.fixture
def no_pause() -> Iterator[None]:
    yield
    provider_limits._own_pauses.clear()
    provider_limits._answered.clear()


def _work_in_thread(run: CompressionRun) -> threading.Thread:
    thread = run_thread(run.pk)
    thread.start()
    return thread


def _model_run(project: Project, record: Record, steps: int, model: str) -> CompressionRun:
    request = RunRequest(strategy="episode_summary", model=model)
    session = record(steps)
    type(session).objects.filter(pk=session.pk).update(project=project)
    return start_run(project, session.pk, request).run


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_pause")
def test_a_limited_model_delays_no_run_of_another_project(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = threading.Event()
    monkeypatch.setattr(model_call_threads, "time", SimpleNamespace(sleep=lambda _: wake.wait(60)))

    def answer(request: Any) -> Answer | Refusal:
        if request.body["model"] == "gpt-5-mini" and not wake.is_set():
            return Refusal(429, "Wait.", "rate_limit_error", headers={"retry-after": "25"})
        return Answer(text="Read it.")

    loopback.default = answer
    limited = [_model_run(project, record, 20, "gpt-5-mini") for _ in range(2)]
    workers = [_work_in_thread(run) for run in limited]
    assert eventually(lambda: provider_limits.pause_of(limited[0].model, project.pk) > 20)
    other = _model_run(Project.objects.create(name="other"), record, 6, "gpt-5-nano")
    worker = _work_in_thread(other)
    worker.join(20)
    state = CompressionRun.objects.get(pk=other.pk).state
    sent = len(loopback.requests)
    for run in limited:
        cancel_run(run)
    wake.set()
    for thread in (*workers, worker):
        thread.join(30)
    assert state == "succeeded"
    # Calls that had not begun before the pause end with their run, and the others are paid for once.
    assert len(loopback.requests) <= sent + 16
    assert not any(run.items.filter(state="claimed").exists() for run in limited)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_pause")
def test_a_run_makes_its_calls_after_the_pause_of_its_model(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = _model_run(project, record, 6, "gpt-5-mini")
    provider_limits.begin_pause(run.model, project.pk, 3)
    started = time.monotonic()
    process_run(run.pk)
    assert time.monotonic() - started >= 2.5
    run.refresh_from_db()
    assert (run.state, run.calls) == ("succeeded", run.total)
    assert len(loopback.requests) == run.total == Summary.objects.count()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_pause")
def test_a_run_is_not_delayed_by_the_pauses_of_another_project(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = _model_run(project, record, 6, "gpt-5-mini")
    provider_limits.begin_pause(run.model, Project.objects.create(name="other").pk, 60)
    process_run(run.pk, should_stop=lambda: provider_limits.allowed_calls(run.model, project.pk, 8) == 8)
    run.refresh_from_db()
    assert run.calls == 1, "a single call shows whether the provider limits this project too"
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.calls) == ("succeeded", run.total)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_pause")
def test_a_run_that_is_cancelled_during_a_pause_ends_at_once(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = _model_run(project, record, 6, "gpt-5-mini")
    provider_limits.begin_pause(run.model, project.pk, 50)
    worker = _work_in_thread(run)
    assert eventually(lambda: run.items.filter(state="claimed").exists())
    cancel_run(run)
    worker.join(10)
    assert not worker.is_alive()
    assert not loopback.requests
    assert not run.items.filter(state="claimed").exists()
