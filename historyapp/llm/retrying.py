"""When a failed call is made again, and when not.

The SDKs retry too, but not as a server needs it, so that their retries are off: Anthropic's sleeps for as
long as ``Retry-After`` says, be it weeks; neither knows the time limit of the call; and neither retries what
fails inside a stream, so that a second loop would be needed, which multiplies the first.
"""

import random
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from historyapp.llm.deltas import ModelOutputDelta, Restarted, Silent, Started, UsageDelta
from historyapp.llm.errors import ModelCallError
from historyapp.llm.listening import PAUSE
from historyapp.llm.transport import Deadline


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Times are in seconds."""

    attempts: int = 4
    """At most, the first one included."""
    first_wait: float = 0.5
    """Doubles with each attempt, up to 8, where the provider does not say how long."""
    longest_wait: float = 60
    """A provider that asks for more is not asked again."""
    restarts: int = 1
    """How often to begin anew when an answer breaks after some of it was given out: it is paid for again."""
    sleep: Callable[[float], None] = time.sleep
    told: Callable[[ModelCallError, float], None] | None = None
    """Told before each wait why and how long it will be."""
    chance: Callable[[], float] = random.random

    def wait(self, failure: ModelCallError, attempt: int) -> float | None:
        """Seconds before the next attempt; None when there is to be none. ``attempt`` counts from 1."""
        if not failure.retryable or attempt >= self.attempts:
            return None
        asked = failure.retry_after
        if asked:
            # Never earlier than asked, and not all at once.
            return asked * (1 + 0.1 * self.chance()) if asked <= self.longest_wait else None
        return float(
            min(self.first_wait * 2 ** (attempt - 1), 8, self.longest_wait) * (1 - 0.25 * self.chance())
        )


def with_retries(
    attempt: Callable[[], Generator[ModelOutputDelta]], policy: RetryPolicy, deadline: Deadline
) -> Generator[ModelOutputDelta]:
    """The deltas of the attempts up to the first that succeeds; :class:`Restarted` says when to drop some.

    Raises:
        ModelCallError: the last attempt's, when there is to be no other.
    """
    number, restarts = 1, 0
    while True:
        shown = begun = False
        try:
            with closing(attempt()) as deltas:
                for delta in deltas:
                    if isinstance(delta, Silent):
                        yield delta
                        continue
                    shown = True
                    begun = begun or not isinstance(delta, (Started, UsageDelta))
                    yield delta
            return
        except ModelCallError as error:
            failure = error
            failure.attempts = number
        wait = policy.wait(failure, number)
        if wait is None or wait >= deadline.left() or (begun and restarts >= policy.restarts):
            raise failure
        number, restarts = number + 1, restarts + begun
        if shown:
            yield Restarted(attempt=number, reason=failure.detail)
        if policy.told is not None:
            policy.told(failure, wait)
        policy.sleep(wait)
        if wait >= PAUSE:
            yield Silent()
