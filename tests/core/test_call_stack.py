"""Calls do not ask the operating system for memory again and again, whatever their depth."""

import resource
import threading

import pytest

from historyapp.core.call_stack import with_room_for_calls


def leaf(a: int) -> int:
    return a


def calls_at(depth: int) -> int:
    """Calls a function many times at this depth. Returns the page faults meanwhile."""
    if depth:
        return calls_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for number in range(500):
        leaf(number)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


@with_room_for_calls
def most_faults(found: list[int]) -> None:
    found += (calls_at(depth) for depth in range(600))


def test_calls_at_any_depth_cause_no_page_faults() -> None:
    found: list[int] = []
    thread = threading.Thread(target=most_faults, args=(found,))
    thread.start()
    thread.join()
    assert len(found) == 600
    assert max(found) < 50  # 500 at the end of a piece of 16 KB


def test_a_function_keeps_its_arguments_and_errors() -> None:
    @with_room_for_calls
    def divide(number: int, *, by: int = 2) -> float:
        return number / by

    assert (divide(4), divide(4, by=1)) == (2, 4)
    with pytest.raises(ZeroDivisionError):
        divide(1, by=0)
