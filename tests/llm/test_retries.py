"""When a model call is retried."""

import weakref
from collections.abc import Generator

import pytest

from historyapp.llm.deltas import FinishedDelta, ModelOutputDelta, RestartedDelta, StartedDelta, TextDelta
from historyapp.llm.errors import ModelCallError, ProviderFailed, ResponseBroken
from historyapp.llm.request import TimeLimits
from historyapp.llm.retries import RetryPolicy, with_retries
from historyapp.llm.transport import Deadline

STARTED = StartedDelta(provider="openai", model="m", id="1")
FINISHED = FinishedDelta(reason="stop", provider_reason="stop", message={})
TEXT = TextDelta(text="a")


def failure(*, retryable: bool = True, retry_after: float | None = None) -> ModelCallError:
    return ProviderFailed("It failed.", provider="P", retryable=retryable, retry_after=retry_after)


def test_waits_double_up_to_eight_seconds_and_stop_with_the_attempts() -> None:
    policy = RetryPolicy(attempts=8, random=lambda: 0.0)
    waits = [policy.wait(failure(), attempt) for attempt in range(1, 9)]
    assert waits == [0.5, 1, 2, 4, 8, 8, 8, None]


def test_waits_are_random_but_never_shorter_than_requested() -> None:
    policy = RetryPolicy(random=lambda: 1.0)
    assert policy.wait(failure(), 1) == 0.375
    assert policy.wait(failure(retry_after=10), 1) == 11


def test_errors_that_are_not_retryable_are_not_retried() -> None:
    assert RetryPolicy().wait(failure(retryable=False), 1) is None


def test_a_requested_wait_that_is_too_long_ends_the_retries() -> None:
    policy = RetryPolicy(longest_wait=5, random=lambda: 0.0)
    assert policy.wait(failure(retry_after=5), 1) == 5
    assert policy.wait(failure(retry_after=5.1), 1) is None


class Script:
    """Scripted attempts, which yield and raise in order; ``closed`` counts the closed ones."""

    def __init__(self, *attempts: list[ModelOutputDelta | ModelCallError]) -> None:
        self.attempts = list(attempts)
        self.closed = 0
        self.waits: list[float] = []

    def attempt(self) -> Generator[ModelOutputDelta]:
        try:
            for step in self.attempts.pop(0):
                if isinstance(step, ModelCallError):
                    raise step
                yield step
        finally:
            self.closed += 1

    def run(self, *, total: float = 100, restarts: int = 1) -> Generator[ModelOutputDelta]:
        policy = RetryPolicy(restarts=restarts, sleep=self.waits.append, random=lambda: 0.0)
        return with_retries(self.attempt, policy, Deadline(TimeLimits(total=total), clock=lambda: 0.0))


def test_a_restart_is_sent_only_after_deltas() -> None:
    script = Script([failure()], [STARTED, failure()], [STARTED, TEXT, FINISHED])
    assert list(script.run()) == [
        STARTED,
        RestartedDelta(attempt=3, reason="It failed."),
        STARTED,
        TEXT,
        FINISHED,
    ]
    assert script.waits == [0.5, 1]


def test_a_response_is_restarted_as_often_as_the_policy_says() -> None:
    broken = ResponseBroken("It broke.", provider="P", retryable=True)
    script = Script([STARTED, TEXT, broken], [STARTED, TEXT, broken], [STARTED, TEXT, broken])
    with pytest.raises(ResponseBroken):
        list(script.run(restarts=2))
    assert script.attempts == []


def test_a_start_without_text_does_not_count_as_a_beginning() -> None:
    script = Script([STARTED, failure()], [STARTED, TEXT, FINISHED])
    assert list(script.run(restarts=0))[-1] == FINISHED


def test_no_wait_exceeds_the_time_limit() -> None:
    script = Script([failure()])
    with pytest.raises(ProviderFailed):
        list(script.run(total=0.5))
    assert script.waits == []


def test_closing_ends_the_current_attempt() -> None:
    script = Script([STARTED, TEXT, FINISHED])
    deltas = script.run()
    next(deltas)
    deltas.close()
    assert script.closed == 1


def test_a_failed_attempt_is_not_kept_during_the_next() -> None:
    """Its frames hold the request: six calls with contexts of 28 MB took 4.6 GB while they were retried."""
    requests = list[weakref.ref[object]]()

    class Body:
        pass

    def attempt() -> Generator[ModelOutputDelta]:
        body = Body()
        assert [request() for request in requests] == [None] * len(requests)
        requests.append(weakref.ref(body))
        yield from ()
        try:
            raise OSError
        except OSError:
            raise failure() from None

    policy = RetryPolicy(sleep=lambda _: None)
    with pytest.raises(ProviderFailed):
        list(with_retries(attempt, policy, Deadline(TimeLimits())))
    assert len(requests) == policy.attempts


def test_a_broken_response_counts_as_a_restart_also_before_its_first_words() -> None:
    broken = ResponseBroken("It broke.", provider="P", retryable=True)
    script = Script([STARTED, broken], [broken], [STARTED, TEXT, FINISHED])
    with pytest.raises(ResponseBroken):
        list(script.run())
    assert len(script.attempts) == 1
