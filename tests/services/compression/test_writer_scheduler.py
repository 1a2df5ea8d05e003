"""Projects take turns in the process that writes summaries."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from uuid import UUID

import pytest

from historyapp.services.summary_writers.scheduler import WriterScheduler

A, B = UUID(int=1), UUID(int=2)


def test_a_project_gets_its_turn_before_all_others_of_another_project() -> None:
    scheduler, order = WriterScheduler(), list[UUID]()
    first_ends = Event()

    def work(project: UUID) -> None:
        with scheduler.exclusive(project, lambda _: None):
            order.append(project)
            assert first_ends.wait(60)

    with ThreadPoolExecutor(6) as pool:
        for number, project in enumerate((A, A, A, B, A, B)):
            pool.submit(work, project)
            _wait_for(scheduler, number)
        first_ends.set()
    assert order == [A, B, A, B, A, A]


def test_who_looks_may_leave_and_the_next_one_gets_the_turn() -> None:
    scheduler, looked = WriterScheduler(), list[UUID | None]()

    def leave(project: UUID | None) -> None:
        looked.append(project)
        raise InterruptedError

    def wait() -> None:
        with scheduler.exclusive(B, leave):
            pass

    def wait_patiently() -> str:
        with scheduler.exclusive(A, lambda _: None):
            return "had the process"

    with ThreadPoolExecutor(2) as pool:
        later: Future[str]
        with scheduler.exclusive(A, lambda _: None):
            leaving = pool.submit(wait)
            _wait_for(scheduler, 1)
            later = pool.submit(wait_patiently)
            with pytest.raises(InterruptedError):
                leaving.result(60)
            assert scheduler.unused_seconds() == 0
        assert later.result(60) == "had the process"
    assert looked == [A]
    assert scheduler.unused_seconds() > 0


def _wait_for(scheduler: WriterScheduler, waiting: int) -> None:
    until = time.monotonic() + 60
    while len(scheduler._waiting) < waiting and time.monotonic() < until:
        time.sleep(0.01)
