"""Threads that read fast responses use at most half of the time together."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

import pytest

from historyapp.llm import streams, transport
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.pace import MAX_REST, SHARE, PaceClock, ReadingPace
from tests.llm.conftest import APIS, Api, Caller


class FakeThreads:
    """Threads that run at the same time. Their time passes in ``work()``, ``wait()`` and rests."""

    def __init__(self, number: int = 1) -> None:
        self.now, self.worked, self.slept = [0.0] * number, [0.0] * number, [0.0] * number
        self._current = 0
        clock = PaceClock(lambda: self.worked[self._current], lambda: self.now[self._current], self._sleep)
        self._stack, pace = ExitStack(), ReadingPace(clock)
        self._rests = [self._stack.enter_context(pace.thread()) for _ in range(number)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _sleep(self, seconds: float) -> None:
        self.slept[self._current] += seconds
        self.now[self._current] += seconds

    def work(self, seconds: float) -> None:
        self.worked[self._current] += seconds
        self.now[self._current] += seconds

    def wait(self, seconds: float) -> None:
        self.now[self._current] += seconds

    def rest(self) -> None:
        self._rests[self._current]()

    def next(self) -> int:
        """Continues with the thread for which the least time has passed. Returns its number."""
        self._current = min(range(len(self.now)), key=self.now.__getitem__)
        return self._current

    def share(self, thread: int) -> float:
        return self.worked[thread] / self.now[thread]


@pytest.mark.parametrize("number", [1, 2, 32])
def test_all_threads_together_work_at_most_half_of_the_time(number: int) -> None:
    with FakeThreads(number) as threads:
        while min(threads.now) < 5:
            threads.next()
            threads.work(0.002)
            threads.rest()
        shares = [threads.share(thread) for thread in range(number)]
    assert sum(shares) == pytest.approx(SHARE, rel=0.02)
    assert max(shares) == pytest.approx(min(shares), rel=0.05)


def test_a_thread_that_waits_for_its_provider_does_not_rest() -> None:
    with FakeThreads() as thread:
        for _ in range(100):
            thread.work(0.002)
            thread.wait(0.005)
            thread.rest()
    assert thread.slept == [0]


def test_threads_that_wait_for_their_providers_leave_their_share_to_others() -> None:
    with FakeThreads(41) as threads:
        while min(threads.now) < 5:
            number = threads.next()
            threads.work(0.002)
            if number == 1:
                threads.wait(0.02)
            elif number > 1:
                threads.wait(1)
            threads.rest()
        shares = [threads.share(thread) for thread in range(41)]
    assert shares[1] == pytest.approx(1 / 11, rel=0.01)
    assert shares[0] == pytest.approx(SHARE - 1 / 11, rel=0.25)


def test_the_rest_after_a_long_piece_is_taken_in_parts() -> None:
    with FakeThreads() as thread:
        thread.work(1)
        thread.rest()
        assert thread.slept == [MAX_REST]
        for _ in range(20):
            thread.rest()
    assert thread.slept == [pytest.approx(1)]


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
