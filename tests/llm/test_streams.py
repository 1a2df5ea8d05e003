"""Reading a stream in a separate thread: nothing is lost, and pauses are reported."""

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from historyapp.llm import streams
from historyapp.llm.streams import read_in_thread


def never() -> None:
    raise AssertionError("nobody left before the end")


def test_all_items_arrive_in_order() -> None:
    assert list(read_in_thread((each for each in range(100)), never)) == list(range(100))


def test_errors_are_raised_in_the_reader_s_thread() -> None:
    def numbers() -> Generator[int]:
        yield 1
        raise LookupError("gone")

    heard = read_in_thread(numbers(), never)
    assert next(heard) == 1
    with pytest.raises(LookupError, match="gone"):
        next(heard)


def test_silence_yields_none_until_the_next_item() -> None:
    speak = threading.Event()

    def numbers() -> Generator[int]:
        speak.wait(10)
        yield 1

    heard = read_in_thread(numbers(), never, pause=0.01)
    assert [next(heard), next(heard)] == [None, None]
    speak.set()
    assert [each for each in heard if each is not None] == [1]


def test_closing_aborts_and_closes_the_stream() -> None:
    hung_up, closed = threading.Event(), threading.Event()

    def numbers() -> Generator[int]:
        try:
            yield 1
            hung_up.wait(10)
            yield 2
        finally:
            closed.set()

    heard = read_in_thread(numbers(), hung_up.set)
    assert next(heard) == 1
    heard.close()
    assert closed.is_set()


def test_a_stream_is_not_read_faster_than_its_reader_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING", 3)
    produced, closed, over = list[int](), threading.Event(), threading.Event()

    def numbers() -> Generator[int]:
        try:
            for number in range(9):
                produced.append(number)
                if len(produced) > 5:
                    over.set()
                yield number
        finally:
            closed.set()

    heard = read_in_thread(numbers(), lambda: None)
    assert next(heard) == 0
    assert not over.wait(0.05)
    assert [next(heard) for _ in range(5)] == [1, 2, 3, 4, 5]
    heard.close()
    assert closed.is_set()


def test_the_thread_does_not_read_many_large_items_ahead() -> None:
    """A thousand of them would take much memory while the reader's client is slow."""
    made = list[int]()

    def texts() -> Generator[str]:
        for number in range(100):
            made.append(number)
            yield "x" * streams.SIZE * streams.MAX_WAITING

    with closing(read_in_thread(texts(), lambda: None)) as heard:
        for _ in range(3):
            assert next(heard)
        assert len(made) <= 6
