"""Projects take turns in the process that writes summaries."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from uuid import UUID

import pytest

from historyapp.services.compression.writer_turns import WriterTurns

A, B = UUID(int=1), UUID(int=2)


def test_a_project_gets_its_turn_before_all_others_of_another_project() -> None:
    turns, order = WriterTurns(), list[UUID]()
    first_ends = Event()

    def work(project: UUID) -> None:
        with turns.turn(project, lambda _: None):
            order.append(project)
            assert first_ends.wait(60)

    with ThreadPoolExecutor(6) as pool:
        for number, project in enumerate((A, A, A, B, A, B)):
            pool.submit(work, project)
            _wait_for(turns, number)
        first_ends.set()
    assert order == [A, B, A, B, A, A]


def test_who_looks_may_leave_and_the_next_one_gets_the_turn() -> None:
    turns, looked = WriterTurns(), list[UUID | None]()

    def leave(project: UUID | None) -> None:
        looked.append(project)
        raise InterruptedError

    def wait() -> None:
        with turns.turn(B, leave):
            pass

    def wait_patiently() -> str:
        with turns.turn(A, lambda _: None):
            return "had a turn"

    with ThreadPoolExecutor(2) as pool:
        later: Future[str]
        with turns.turn(A, lambda _: None):
            leaving = pool.submit(wait)
            _wait_for(turns, 1)
            later = pool.submit(wait_patiently)
            with pytest.raises(InterruptedError):
                leaving.result(60)
            assert turns.unused_seconds() == 0
        assert later.result(60) == "had a turn"
    assert looked == [A]
    assert turns.unused_seconds() > 0


def _wait_for(turns: WriterTurns, waiting: int) -> None:
    until = time.monotonic() + 60
    while len(turns._waiting) < waiting and time.monotonic() < until:
        time.sleep(0.01)
