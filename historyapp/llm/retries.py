"""Retries of failed model calls.

The SDKs' own retries are disabled. Anthropic's SDK sleeps for the whole ``Retry-After``, even for weeks.
Neither SDK knows the time limit of the model call or retries a failure inside a stream. This loop does both.
If the SDKs retried too, the attempts would multiply.
"""

import random
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from historyapp.llm.deltas import ModelOutputDelta, RestartedDelta, SilentDelta, StartedDelta, UsageDelta
from historyapp.llm.errors import ModelCallError, ResponseBroken
from historyapp.llm.streams import PAUSE
from historyapp.llm.transport import Deadline


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Times are in seconds."""

    attempts: int = 4
    """The maximum number of attempts, including the first."""
    first_wait: float = 0.5
    """The first wait if the provider does not ask for a wait. Doubles with each attempt, up to 8 seconds."""
    longest_wait: float = 60
    """The longest wait. A model call is not retried if the provider asks for a longer wait."""
    restarts: int = 1
    """The maximum number of retries after a response broke off, or did not follow the provider's API. Each of
    them is billed again.
    """
    sleep: Callable[[float], None] = time.sleep
    on_retry: Callable[[ModelCallError, float], None] | None = None
    """Called before each wait with the error and the seconds."""
    random: Callable[[], float] = random.random

    def wait(self, failure: ModelCallError, attempt: int) -> float | None:
        """Seconds before the next attempt, or None for no retry. ``attempt`` starts at 1."""
        if not failure.retryable or attempt >= self.attempts:
            return None
        requested = failure.retry_after
        if requested:
            # Jitter only adds to the requested time, so no retry comes too early.
            return requested * (1 + 0.1 * self.random()) if requested <= self.longest_wait else None
        return float(
            min(self.first_wait * 2 ** (attempt - 1), 8, self.longest_wait) * (1 - 0.25 * self.random())
        )


def with_retries(
    attempt: Callable[[], Generator[ModelOutputDelta]], policy: RetryPolicy, deadline: Deadline
) -> Generator[ModelOutputDelta]:
    """Yields the deltas of all attempts up to the first success. :class:`RestartedDelta` marks each restart.

    Raises:
        ModelCallError: the error of the last attempt.
    """
    number, restarts = 1, 0
    while True:
        sent = is_billed = False
        try:
            with closing(attempt()) as deltas:
                for delta in deltas:
                    if isinstance(delta, SilentDelta):
                        yield delta
                        continue
                    sent = True
                    is_billed = is_billed or not isinstance(delta, (StartedDelta, UsageDelta))
                    yield delta
            return
        except ModelCallError as error:
            failure = error
            failure.attempts = number
            is_billed = is_billed or isinstance(error, ResponseBroken)
        wait = policy.wait(failure, number)
        if wait is None or wait >= deadline.remaining() or (is_billed and restarts >= policy.restarts):
            raise failure
        _drop_frames(failure)
        number, restarts = number + 1, restarts + is_billed
        if sent:
            yield RestartedDelta(attempt=number, reason=failure.detail)
        if policy.on_retry is not None:
            policy.on_retry(failure, wait)
        policy.sleep(wait)
        if wait >= PAUSE:
            yield SilentDelta()


def _drop_frames(failure: ModelCallError) -> None:
    """Its tracebacks would keep the request of the failed attempt while the next one sends it again."""
    failure.__traceback__ = failure.__context__ = failure.__cause__ = None
