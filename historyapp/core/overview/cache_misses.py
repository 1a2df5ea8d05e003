"""The requests that a provider did not read from its cache, and those for which the cache had expired."""

from dataclasses import dataclass, field
from datetime import timedelta
from heapq import nlargest

from historyapp.core.context_diff import is_missed
from historyapp.core.dates import UNDATED, milliseconds_of
from historyapp.core.overview.step_facts import StepFacts
from historyapp.core.usage import HOUR

MAX_EXPIRED = 8
"""The number of first steps that are kept."""
MAX_LOSSES = 8
"""The number of largest losses that are kept."""
_UNDATED = milliseconds_of(UNDATED)


@dataclass(slots=True)
class CacheLoss:
    """A step whose request read less from the cache than it could share with the request before."""

    step: int
    read: int
    """Tokens that it read from the cache."""
    shared: int
    """Tokens that it had in common with the request before, at most."""
    passed: int | None
    """Milliseconds since the step of that request; None if unknown."""

    @property
    def missed(self) -> int:
        return self.shared - self.read

    @property
    def pause(self) -> timedelta | None:
        return None if self.passed is None else timedelta(milliseconds=self.passed)


@dataclass(slots=True)
class CacheMisses:
    """Lost and expired caches. Only those whose lifetime the usage states are counted as expired."""

    losses: list[CacheLoss] = field(default_factory=list)
    """The largest losses of the cache, in any order. Without any reads from a cache, they mean nothing."""
    last_input: int = 0
    """The input of the newest model call that reported it; ``last_at``: the time of its step."""
    last_at: int = 0

    expired: list[int] = field(default_factory=list)
    """The first steps whose request did not find the cache of the step before."""
    count: int = 0
    tokens: int = 0
    """The tokens that had to be written to a cache again."""
    hour_tokens: int = 0
    """Those of them that were written for an hour."""
    lifetime: int = 0
    """Of the newest expired cache, in seconds."""
    previous_input: int = 0
    """The input of the newest model call; 0 if it reported none, or if its cache is of no use any more."""
    previous_model: str = ""
    previous_at: int = 0
    previous_lifetime: int = 0

    def add(self, step: StepFacts, *, is_compacted: bool) -> None:
        """Adds the model call of a step.

        Args:
            is_compacted: whether the agent compacted its context before it.
        """
        self._add_loss(step)
        shared = 0 if is_compacted or step.model != self.previous_model else self.previous_input
        missed = shared - step.usage.cache_read
        passed = step.at - self.previous_at
        lifetime = self.previous_lifetime or step.cache_lifetime
        has_only_grown = shared <= step.usage.input
        if shared and has_only_grown and is_missed(missed, shared) and 0 < lifetime * 1000 < passed:
            self.count += 1
            self.tokens += missed
            self.hour_tokens += missed if (step.cache_lifetime or lifetime) == HOUR else 0
            self.lifetime = lifetime
            if len(self.expired) < MAX_EXPIRED:
                self.expired.append(step.number)
        self.previous_input, self.previous_model, self.previous_at = step.usage.input, step.model, step.at
        self.previous_lifetime = step.cache_lifetime or (self.previous_lifetime if shared else 0)

    def _add_loss(self, step: StepFacts) -> None:
        sent, read = step.usage.input, step.usage.cache_read
        if not sent:
            return
        shared = min(self.last_input, sent)
        if is_missed(shared - read, shared):
            passed = None if _UNDATED in (self.last_at, step.at) else step.at - self.last_at
            losses = [*self.losses, CacheLoss(step.number, read, shared, passed)]
            self.losses = nlargest(MAX_LOSSES, losses, key=lambda loss: loss.missed)
        self.last_input, self.last_at = sent, step.at
