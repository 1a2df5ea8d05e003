"""Which thread writes next."""

import threading
import time
from uuid import UUID, uuid4

import pytest

from historyapp.services import write_turns
from historyapp.services.write_turns import WriteTurns

PATIENCE = 20.0
OURS, THEIRS, THIRD = uuid4(), uuid4(), uuid4()


def take_turns(turns: WriteTurns, projects: list[UUID]) -> list[int]:
    """The order in which threads of these projects get a turn, if they begin to wait in this order."""
    order, threads = list[int](), list[threading.Thread]()

    def write(number: int) -> None:
        assert turns.acquire(projects[number], PATIENCE)
        order.append(number)
        turns.release()

    for number in range(len(projects)):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        end = time.monotonic() + PATIENCE
        while len(turns._waiting) <= number and time.monotonic() < end:
            time.sleep(0.001)
    turns.release()
    for thread in threads:
        thread.join()
    return order


def test_threads_of_a_project_write_in_the_order_in_which_they_came() -> None:
    turns = WriteTurns()
    assert turns.acquire(OURS, 0)
    assert take_turns(turns, [OURS] * 4) == [0, 1, 2, 3]


def test_a_project_does_not_wait_for_all_threads_of_another_one() -> None:
    """The one whose last turn is the longest ago comes first."""
    turns = WriteTurns()
    assert turns.acquire(THEIRS, 0)
    assert take_turns(turns, [THEIRS, THEIRS, THEIRS, OURS, THIRD, OURS]) == [3, 4, 0, 5, 1, 2]


def test_a_thread_whose_time_is_over_keeps_no_turn() -> None:
    turns = WriteTurns()
    assert turns.acquire(OURS, 0)
    assert not turns.acquire(THEIRS, 0.01)
    turns.release()
    assert turns.acquire(OURS, 0)


def test_a_turn_that_comes_when_the_time_is_over_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody would have it, and all would wait for ever."""
    turns = WriteTurns()

    class Late(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            turns.release()
            return False

    assert turns.acquire(OURS, 0)
    monkeypatch.setattr("historyapp.services.write_turns.threading.Event", Late)
    assert turns.acquire(THEIRS, 0)


@pytest.mark.parametrize("has_come", [True, False])
def test_a_thread_that_an_error_ends_keeps_no_turn(monkeypatch: pytest.MonkeyPatch, has_come: bool) -> None:
    """As Ctrl-C ends a command, whose other threads have to write the end of their work."""
    turns = WriteTurns()

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if has_come:
                turns.release()
            raise KeyboardInterrupt

    assert turns.acquire(OURS, 0)
    monkeypatch.setattr("historyapp.services.write_turns.threading.Event", Ended)
    with pytest.raises(KeyboardInterrupt):
        turns.acquire(THEIRS, 0)
    if not has_come:
        turns.release()
    assert turns.acquire(OURS, 0)


def test_the_turns_of_few_projects_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_turns, "MAX_REMEMBERED", 3)
    turns, projects = WriteTurns(), [uuid4() for _ in range(10)]
    for project in projects:
        assert turns.acquire(project, 0)
        turns.release()
    assert list(turns._last_turns) == projects[-3:]
