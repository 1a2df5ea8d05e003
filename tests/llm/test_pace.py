"""Threads that read fast responses use at most half of the time together."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from historyapp.llm import streams, transport
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.pace import MAX_REST, PaceClock, ReadingPace
from tests.llm.conftest import APIS, Api, Caller


class FakeThread:
    """Time passes only in ``work()``, ``wait()`` and ``sleep()``."""

    def __init__(self) -> None:
        self.now = self.worked = self.slept = 0.0

    def work(self, seconds: float) -> None:
        self.worked += seconds
        self.now += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds

    def clock(self) -> PaceClock:
        return PaceClock(work=lambda: self.worked, now=lambda: self.now, sleep=self.sleep)


@pytest.mark.parametrize("threads", [1, 2, 32])
def test_all_threads_together_work_at_most_half_of_the_time(threads: int) -> None:
    thread = FakeThread()
    pace = ReadingPace(thread.clock())
    with ExitStack() as stack:
        rest = [stack.enter_context(pace.thread()) for _ in range(threads)][-1]
        for _ in range(1000):
            thread.work(0.002)
            rest()
    assert thread.worked / thread.now == pytest.approx(1 / (1 + 2 * threads), rel=0.01)


def test_a_thread_that_waits_for_its_provider_does_not_rest() -> None:
    thread = FakeThread()
    with ReadingPace(thread.clock()).thread() as rest:
        for _ in range(100):
            thread.work(0.002)
            thread.wait(0.005)
            rest()
    assert thread.slept == 0


def test_the_rest_after_a_long_piece_is_taken_in_parts() -> None:
    thread = FakeThread()
    with ReadingPace(thread.clock()).thread() as rest:
        thread.work(1)
        rest()
        assert thread.slept == MAX_REST
        for _ in range(20):
            rest()
    assert thread.slept == pytest.approx(2)


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each thread has been offered a rest."""
    offered = Counter[str]()

    class CountedReadingPace(ReadingPace):
        @contextmanager
        def thread(self) -> Iterator[Callable[[], None]]:
            yield lambda: offered.update([threading.current_thread().name])

    monkeypatch.setattr(streams, "PACE", CountedReadingPace())
    monkeypatch.setattr(transport, "PACE", CountedReadingPace())
    return offered


def test_both_threads_of_a_model_call_rest(rests: Counter[str], api: Api, caller: Caller) -> None:
    deltas = caller.deltas(api.request())
    assert rests["playhead-stream"] >= 2
    assert rests[threading.current_thread().name] >= len(deltas) - 1


def test_a_thread_that_counts_tokens_rests(rests: Counter[str], caller: Caller) -> None:
    count_tokens(APIS[-1].request())
    assert rests[threading.current_thread().name] >= 2
