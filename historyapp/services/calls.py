"""Calling a model with a fresh context, and appending what it answers (DESIGN 9)."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from historyapp.core.entries import DebugLog, EntryDraft
from historyapp.core.errors import Conflict, Invalid, PlayheadError
from historyapp.core.usage import Usage
from historyapp.llm.calling import call_model
from historyapp.llm.collecting import Collected, Collector
from historyapp.llm.deltas import ModelOutputDelta, Silent
from historyapp.llm.errors import AnswerBroken, ModelCallError
from historyapp.llm.retrying import RetryPolicy
from historyapp.llm.router import PROVIDERS, ProviderRouter
from historyapp.models import Session, Snapshot
from historyapp.services.append import ACTION_IN_FLIGHT, Appended, append, check_open, check_position
from historyapp.services.contexts import ContextOptions, model_of, model_request
from historyapp.services.prices import price_list
from historyapp.services.snapshots import record_snapshot, serve
from historyapp.services.transactions import writing

RETRIES = RetryPolicy()
CATEGORY = "model_call"
"""Of the ``debug_log`` entries of calls that failed."""


@dataclass(frozen=True, slots=True)
class CallWish:
    """What a caller asks for."""

    wish: ContextOptions
    provider: str | None = None
    """Null: told by the model's name."""
    max_output_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the provider's request."""
    expected_position: int | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A call's answer, in the log."""

    appended: Appended
    collected: Collected
    snapshot: Snapshot
    latency: float
    """Seconds from the request to the end of the answer."""
    cost: int | None
    """In millionths of a dollar; null: the model's price is not known."""

    @property
    def usage(self) -> Usage:
        return self.collected.tokens


class ModelCall:
    """One call, from its context to its place in the log. Iterate over its deltas once, and close them."""

    def __init__(self, session: Session, asked: CallWish) -> None:
        """Builds the context; nothing is written and nobody is asked yet.

        Raises:
            Invalid: for a model that nothing serves, another provider's format, or a context that cannot be
                built.
            Conflict: when an action is in flight, the head is another, or the session is archived.
        """
        _check(session, asked.expected_position)
        model = _explicit(session, asked)
        self._provider = ProviderRouter().route(model).provider
        self._session = session
        self._served = serve(session, _for_provider(asked.wish, model, self._provider.format))
        self._request = model_request(
            self._served.built, max_output_tokens=asked.max_output_tokens, options=asked.options
        )
        self._collector = Collector()
        self._snapshot: Snapshot | None = None
        self._begun = time.monotonic()

    def deltas(self, keep: Callable[[Answered], None]) -> Generator[ModelOutputDelta]:
        """The answer while it is given; when it ends, the answer is in the log.

        Closing the iterator cancels the call: the history stays as it was.

        Args:
            keep: is given the answer within the transaction that appends it.

        Raises:
            Invalid: when the provider cannot be asked: without a key, with options that cannot be set.
            ModelCallError: when the call fails. The log then holds one entry more, which says so.
            Conflict: when somebody else appended meanwhile; likewise.
        """
        self._begun = time.monotonic()
        try:
            with closing(call_model(self._request, retries=RETRIES)) as deltas:
                for delta in deltas:
                    if isinstance(delta, Silent):
                        yield delta
                        continue
                    self._snapshot = self._snapshot or record_snapshot(self._served)
                    self._collector.take(delta)
                    yield delta
            self._append(keep)
        except (ModelCallError, Conflict) as error:
            self._tell(error)
            raise

    def _append(self, keep: Callable[[Answered], None]) -> None:
        assert self._snapshot is not None
        session, snapshot = self._session, self._snapshot
        latency = time.monotonic() - self._begun
        collected = self._collector.result()
        cost = self._cost(collected)
        draft = EntryDraft(collected.output, metadata=self._metadata(collected, snapshot, latency, cost))
        with writing():
            try:
                appended = append(session.project, session.pk, [draft], expected_position=session.head)
            except (Invalid, ValueError) as error:
                raise AnswerBroken(
                    f"{self._provider.title} answered what cannot be recorded: {error}",
                    provider=self._provider.title,
                ) from error
            keep(Answered(appended, collected, snapshot, latency, cost))

    def _cost(self, collected: Collected) -> int | None:
        price = price_list().of(self._request.model)
        return price.cost(collected.tokens) if price and collected.usage else None

    def _metadata(
        self, collected: Collected, snapshot: Snapshot, latency: float, cost: int | None
    ) -> dict[str, Any]:
        usage = collected.usage
        told: dict[str, Any] = {
            "provider": self._provider.name,
            "model": collected.started.model or self._request.model,
            "latency": round(latency, 3),
            "finish_reason": collected.finished.reason,
            "snapshot": str(snapshot.pk),
            "estimated_tokens": snapshot.estimated,
        }
        if usage is not None:
            convention = "anthropic" if self._provider.name == "anthropic" else "openai"
            told |= {"usage": usage.raw, "usage_convention": convention}
        if cost is not None:
            told |= {"cost": cost / 1_000_000, "prices_as_of": price_list().as_of}
        return told

    def _tell(self, error: PlayheadError) -> None:
        """Leaves a note of the failure in the log, wherever its head is by now."""
        snapshot = self._snapshot or record_snapshot(self._served)
        body = DebugLog(category=CATEGORY, message=_with_model(error, self._request.model))
        known = {name: value for name, value in error.fields.items() if isinstance(value, (str, int, float))}
        draft = EntryDraft(
            body, metadata={**known, "model": self._request.model, "snapshot": str(snapshot.pk)}
        )
        with suppress(Conflict):  # archived meanwhile: then nothing can be noted any more
            append(self._session.project, self._session.pk, [draft])


def _with_model(error: PlayheadError, model: str) -> str:
    return error.detail if "model" in error.fields else f"{model}: {error.detail}"


def _check(session: Session, expected: int | None) -> None:
    check_open(session)
    check_position(session, expected)
    step = session.live_tail.step
    if session.status == Session.Status.LIVE and step is not None and step.status == "in_flight":
        raise Conflict(ACTION_IN_FLIGHT)


def _explicit(session: Session, asked: CallWish) -> str:
    """The model, with its provider before it where one is named."""
    model, provider = model_of(session, asked.wish), asked.provider
    if provider is None:
        return model
    if provider not in PROVIDERS:
        known = list(PROVIDERS)
        raise Invalid(
            f"There is no provider {provider[:100]!r}. Use one of {', '.join(known)}.", providers=known
        )
    return f"{provider}:{model}"


def _for_provider(wish: ContextOptions, model: str, format: str) -> ContextOptions:
    if wish.format not in (None, format):
        raise Invalid(
            f"The provider of {model} takes the format {format}, not {wish.format}.", formats=[format]
        )
    return replace(wish, model=model, format=format)
