"""Putting a strategy's questions to the run's model, and keeping account of what they cost."""

import functools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.cache import cache
from limits import parse
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter
from redis.exceptions import RedisError

from historyapp.core.formats import format_named
from historyapp.core.prices import Price
from historyapp.core.strategies.base import NotSummarised, Prompt
from historyapp.core.tokens import count_tokens
from historyapp.core.usage import Usage
from historyapp.llm.calling import call_model
from historyapp.llm.collecting import collect
from historyapp.llm.errors import LimitReached, ModelCallError
from historyapp.llm.provider import Provider
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.retrying import RetryPolicy
from historyapp.llm.router import ProviderRouter
from historyapp.services.compression.claims import Spent
from historyapp.services.prices import price_list

log = logging.getLogger(__name__)

LIMITS = TimeLimits(connect=10, read=60, total=120)
LONGEST_PAUSE = 60
"""Seconds that a provider's wish to be left alone holds for all workers."""


class Questions:
    """What one item asks. ``spent`` grows with each call, also with those that fail."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._provider = ProviderRouter().route(model).provider
        self._price: Price | None = price_list().of(model)
        self.spent = Spent(cost=0 if self._price else None)

    def ask(self, prompt: Prompt) -> str:
        """The answer's text.

        Raises:
            NotSummarised: when the model refuses, or is cut off by its limit.
            Invalid, ModelCallError: as ``call_model``.
        """
        request = request_for(self._provider, self._model, prompt)
        _wait_for_turn(self._provider.name)
        sent = count_tokens(prompt.instruction) + count_tokens(prompt.material)
        try:
            answer = collect(call_model(request, limits=LIMITS, retries=_retries(self._provider.name)))
        except (ModelCallError, ValueError):
            self._spend(Usage())  # what a failed call is billed, nobody says
            raise
        text = answer.output.text
        self._spend(answer.tokens if answer.usage else Usage(input=sent, output=count_tokens(text)))
        reason = answer.finished.reason
        if reason == "refusal":
            raise NotSummarised(f"The model refused: {text[:200] or 'it gave no reason'}")
        if reason == "length" and not text.strip():
            raise NotSummarised("The model used up its tokens without an answer. Choose another model.")
        return text

    def _spend(self, usage: Usage) -> None:
        before, price = self.spent, self._price
        self.spent = Spent(
            before.calls + 1,
            before.tokens_in + usage.input,
            before.tokens_out + usage.output,
            None if before.cost is None or price is None else before.cost + price.cost(usage),
        )


def request_for(provider: Provider, model: str, prompt: Prompt) -> ModelRequest:
    """A prompt as a request in the provider's format, with structured output where that is wanted."""
    written = format_named(provider.format).prompt(prompt.instruction, prompt.material, prompt.answer_schema)
    return ModelRequest(model, written.context, prompt.max_output_tokens, written.options)


def _retries(provider: str) -> RetryPolicy:
    return RetryPolicy(attempts=5, told=lambda failure, wait: _note_pause(provider, failure, wait))


def _note_pause(provider: str, failure: ModelCallError, wait: float) -> None:
    """A provider that limits one call limits them all: every worker waits."""
    if isinstance(failure, LimitReached):
        until = time.time() + min(wait, LONGEST_PAUSE)
        with _without_redis():
            cache.set(_pause_key(provider), until, timeout=LONGEST_PAUSE)


def _pause_key(provider: str) -> str:
    return f"playhead:pause:{provider}"


def _wait_for_turn(provider: str) -> None:
    """Waits while the provider wants to be left alone, then for its rate limit, if it has one here."""
    with _without_redis():
        pause = (cache.get(_pause_key(provider)) or 0) - time.time()
        if pause > 0:
            time.sleep(min(pause, LONGEST_PAUSE))
        limit = settings.PLAYHEAD_RATE_LIMITS.get(provider)
        while limit is not None and not _limiter().hit(parse(limit), "playhead", provider):
            reset, _ = _limiter().get_window_stats(parse(limit), "playhead", provider)
            time.sleep(max(0.05, min(reset - time.time(), 1)))


@contextmanager
def _without_redis() -> Iterator[None]:
    """What workers share is a courtesy: while it is away, each goes on without it."""
    try:
        yield
    except RedisError as error:
        log.warning("Redis cannot be reached; calls go on without the shared limits: %s", error)


@functools.cache
def _limiter() -> MovingWindowRateLimiter:
    """One for all calls: in Redis it holds for all workers."""
    return MovingWindowRateLimiter(storage_from_string(settings.REDIS_URL or "memory://"))
