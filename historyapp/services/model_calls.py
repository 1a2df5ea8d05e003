"""Calls a model with a new context and appends the response to the session."""

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from math import ceil
from typing import Any
from uuid import UUID

from historyapp.core.budget import meter_for
from historyapp.core.entries import DebugLog, EntryDraft
from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError
from historyapp.core.json import dump_json
from historyapp.core.json_memory import memory_of
from historyapp.core.usage import MICRO
from historyapp.llm.completions import Completion, CompletionBuilder
from historyapp.llm.deltas import ModelOutputDelta, SilentDelta
from historyapp.llm.errors import ModelCallError, ResponseBroken
from historyapp.llm.model_calls import call_model
from historyapp.llm.request import ModelRequest
from historyapp.llm.response_memory import RESPONSES, CountMemory
from historyapp.llm.retries import RetryPolicy
from historyapp.llm.router import PROVIDERS, ProviderRouter
from historyapp.models import Session, Snapshot
from historyapp.models.large_reads import end_large_read
from historyapp.services.append import (
    AppendedEntries,
    action_in_flight,
    append,
    check_open,
    check_position,
    read_session,
)
from historyapp.services.call_memory import CALL_MEMORY
from historyapp.services.connections import release_connection
from historyapp.services.contexts import RequestedContext, model_of
from historyapp.services.faults import UNREACHABLE, refuse_full_disk
from historyapp.services.leaving_clients import has_client_left
from historyapp.services.model_call_slots import turn_to_record
from historyapp.services.prices import price_list
from historyapp.services.reservations import OUTPUT_LIMIT, Reservation, reserve
from historyapp.services.snapshots import record_snapshot, serve_context
from historyapp.services.spending import Payer
from historyapp.services.totals import count_model_calls
from historyapp.services.transactions import writing, writing_together
from historyapp.services.unpriced import extra_image_tokens, uncounted_part, unpriced_part
from historyapp.wire.problems import (
    CapReached,
    ModelNotAllowed,
    ServerUnavailable,
    SpendForbidden,
    TransactionTooLong,
)

log = logging.getLogger(__name__)

RETRIES = RetryPolicy()
RECORD_SECONDS, RECORD_PAUSE, TOO_LONG_PAUSE = 60.0, 0.25, 5.0
"""How long a paid response waits for the database, and the seconds between two attempts to record it; more
after a transaction that took too long, because others cannot write meanwhile."""
FAILURE_CATEGORY = "model_call"
"""The category of the ``debug_log`` entries of failed model calls."""


@dataclass(frozen=True, slots=True)
class ModelCallRequest:
    context: RequestedContext
    provider: str | None = None
    """None: the provider that the model's name determines."""
    max_output_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the provider's request."""
    expected_position: int | None = None


@contextmanager
def room_for_context(project: UUID, sent: Sequence[Any]) -> Generator[None]:
    """Room for what a client has sent for a call, while its context is computed.

    Raises:
        TooManyRequests: when the contexts and options of the project's calls take too much memory.
        ServerUnavailable: when those of all projects together do.
    """
    CALL_MEMORY.check(project)
    with CALL_MEMORY.held(project, sum(map(memory_of, sent))):
        yield


@dataclass(frozen=True, slots=True)
class RecordedCompletion:
    """A model call's response, appended to the session."""

    appended: AppendedEntries
    completion: Completion
    snapshot: Snapshot
    latency: float
    """Seconds from the request to the end of the response."""
    cost: int | None
    """In millionths of a dollar; None if the model's price or the usage is not known."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """A complete response, and the entry for it."""

    completion: Completion
    cost: int | None
    draft: EntryDraft


class ModelCall:
    """One model call, from its context to its entry. Iterate over its deltas once, and close the iterator."""

    def __init__(self, session: Session, request: ModelCallRequest, key: UUID | None = None) -> None:
        """Builds the context. Nothing is written or sent yet.

        Args:
            key: the API key, whose caps apply too.

        Raises:
            Invalid: for a model that no provider serves, another provider's format, or a context that cannot
                be built.
            Conflict: when an action is in flight, the head is not ``expected_position``, or the session is
                archived.
        """
        check_open(session)
        check_position(session, request.expected_position)
        step = session.live_tail.step
        if session.status == Session.Status.LIVE and step is not None and step.status == "in_flight":
            raise action_in_flight(step)
        model = _prefixed_model(session, request)
        self._provider = ProviderRouter().route(model).provider
        format = self._provider.format
        if request.context.format not in (None, format):
            raise Invalid(
                f"The provider of {model} takes the format {format}, not {request.context.format}.",
                formats=[format],
            )
        self._session = session
        self._served = serve_context(session, replace(request.context, model=model, format=format))
        built = self._served.built
        self._request = ModelRequest(
            built.spec.model, built.request, request.max_output_tokens, request.options
        )
        self._builder = CompletionBuilder()
        self._reservation = Reservation(Payer(session.project_id, session.pk, key), model)
        self._snapshot: Snapshot | None = None
        self._is_sent = False
        self._cost: int | None = 0
        """What the last attempt cost. None: not known, so the reserved maximum counts."""
        self._keeps_snapshot = False
        """Whether an entry names the snapshot: the answer, or one that says that the call failed."""
        self._count_memory: CountMemory = lambda _: None
        self._size = 0
        """The bytes of the response in memory."""
        self._started, self._latency = time.monotonic(), 0.0

    def deltas(self, on_append: Callable[[RecordedCompletion], None]) -> Generator[ModelOutputDelta]:
        """Yields the deltas as they arrive, then appends the response to the log. While the database cannot
        be used, the response waits for up to a minute.

        Closing the iterator cancels the model call: nothing is appended.

        Args:
            on_append: called with the response within the transaction that appends it.

        Raises:
            Invalid: when the request cannot be sent: the provider has no key, or an option is not allowed.
            ModelCallError: when the model call fails. An entry about it is appended to the log.
            Conflict: when another client has appended meanwhile. An entry about it is appended to the log.
            CapReached: when a spending cap leaves too little for the model call. Nothing is sent.
            ServerUnavailable: when the contexts and options of other calls take too much memory, or nothing
                can be stored. Nothing is sent.
            SpendForbidden, ModelNotAllowed: when permission was withdrawn. Nothing is sent, or no further
                attempt.
            NotFound: when the session was erased meanwhile.
        """
        size = memory_of(self._request.context) + memory_of(self._request.options)
        with (
            CALL_MEMORY.held(self._session.project_id, size),
            RESPONSES.held(self._session.project_id) as self._count_memory,
            closing(self._deltas(on_append)) as deltas,
        ):
            yield from deltas

    def _deltas(self, on_append: Callable[[RecordedCompletion], None]) -> Generator[ModelOutputDelta]:
        self._started = time.monotonic()
        try:
            refuse_full_disk()
            self._reserve()
            # Before anything is paid: a full disk, which still lets counters change, refuses it.
            self._snapshot = record_snapshot(self._served)
            release_connection()
            end_large_read()
            self._is_sent, self._cost = True, None
            retries = replace(RETRIES, on_retry=self._retry, sleep=self._wait)
            answer = call_model(self._request, retries=retries, count_memory=self._count)
            with closing(answer) as deltas:
                for delta in self._reservation.watch(deltas):
                    if not isinstance(delta, SilentDelta):
                        self._builder.add(delta)
                    yield delta
            self._latency = time.monotonic() - self._started
            yield from self._record(on_append)
            self._keeps_snapshot = True
        except (ModelCallError, Conflict, CapReached, SpendForbidden, ModelNotAllowed) as error:
            self._end_reservation(error)  # first: nothing can be logged in a session that was erased
            if self._is_sent or isinstance(error, (ModelCallError, Conflict)):
                self._log_failure(error)
            raise
        except (Invalid, NotFound) as error:
            self._end_reservation(error)  # nothing was sent, or the session was erased
            raise
        finally:
            # For a call that was cancelled or failed in another way. Without a request it cost nothing.
            self._reservation.settle(self._cost)
            self._delete_unused_snapshot()
            release_connection()  # the client may read the rest slowly

    def _end_reservation(self, error: Exception) -> None:
        """Ends the reservation of a failed call, unless its cost is known, which counts in the end."""
        if self._cost is None:
            self._reservation.fail(error)

    def _delete_unused_snapshot(self) -> None:
        """Deletes the snapshot of a call without an entry, which would explain the agent's next output."""
        if self._snapshot is None or self._keeps_snapshot:
            return
        try:
            with writing():
                # The answer may be stored although its commit failed: then it has a position.
                Snapshot.objects.filter(pk=self._snapshot.pk, output_position=None).delete()
        except UNREACHABLE as error:
            log.warning("The snapshot of a model call of %s stays: %s", self._session.pk, error)

    def _count(self, size: int) -> None:
        self._size = size
        self._count_memory(size)

    def _reserve(self) -> None:
        request, payer = self._request, self._reservation.payer
        built, spec = self._served.built, self._served.built.spec
        # Keys without ``spend`` report usage too. Usage that is too low must not lower what is reserved.
        meter = meter_for(spec.format, spec.model)
        factor = max(meter.factor, spec.factor)
        tokens = ceil(built.tokens * factor / spec.factor)
        tokens += ceil(meter.count(dump_json(dict(request.options))) * factor)
        tokens += extra_image_tokens(request)
        unpriced, uncounted = unpriced_part(request), uncounted_part(request)
        limit = request.max_output_tokens
        self._reservation = reserve(payer, request.model, tokens, limit, unpriced, uncounted=uncounted)
        if self._reservation.is_capped and request.max_output_tokens is None:
            self._request = replace(request, max_output_tokens=OUTPUT_LIMIT)

    def _retry(self, failure: ModelCallError, wait: float) -> None:
        self._reservation.retry(failure, wait)
        release_connection()

    def _wait(self, seconds: float) -> None:
        """Waits before another attempt, and then checks that it may still be sent."""
        RETRIES.sleep(seconds)
        if has_client_left.get()():
            self._reservation.settle(0)  # this attempt is not sent
            raise ServerUnavailable("The client has closed its connection.")
        session = read_session(self._session.project, self._session.pk)
        check_open(session)
        check_position(session, self._session.head)  # otherwise the response could not be appended
        self._reservation.check()
        release_connection()

    def _record(self, on_append: Callable[[RecordedCompletion], None]) -> Generator[ModelOutputDelta]:
        """Appends the response, which is paid. If the database cannot be used, it tries again for a while."""
        until, answer = time.monotonic() + RECORD_SECONDS, None
        for attempt in count(1):
            try:
                with turn_to_record(self._session.project_id, self._size):
                    answer = answer or self._answer()
                    self._append_once(answer, on_append)
                return
            except UNREACHABLE as error:
                if time.monotonic() >= until:
                    raise
                if attempt == 1:
                    log.warning("The response for %s waits for the database: %s", self._session.pk, error)
                pause = TOO_LONG_PAUSE if isinstance(error, TransactionTooLong) else RECORD_PAUSE
            release_connection()
            yield SilentDelta()
            time.sleep(pause)

    def _append_once(self, answer: _Answer, on_append: Callable[[RecordedCompletion], None]) -> None:
        """Appends the response, unless an earlier attempt has stored it and lost its connection then."""
        assert self._snapshot is not None
        try:
            self._append(answer, on_append)
        except Conflict:
            if not Snapshot.objects.filter(pk=self._snapshot.pk, output_position__isnull=False).exists():
                raise

    def _answer(self) -> _Answer:
        """The complete response and its cost, with which the reservation ends."""
        assert self._snapshot is not None
        snapshot = self._snapshot
        completion, prices = self._builder.completion(), price_list()
        self._builder = CompletionBuilder()  # the response may wait: its parts would take memory twice
        price = prices.of(self._request.model)
        billed = completion.billed
        self._cost = cost = self._reservation.believed(price, billed) if price and billed else None
        self._reservation.settle(cost)
        metadata: dict[str, Any] = {
            "provider": self._provider.name,
            "model": completion.started.model or self._request.model,
            "latency": round(self._latency, 3),
            "finish_reason": completion.finished.reason,
            "snapshot": str(snapshot.pk),
            "estimated_tokens": snapshot.estimated,
        }
        if completion.usage is not None:
            convention = "anthropic" if self._provider.name == "anthropic" else "openai"
            is_refused = price is not None and billed is not None and cost is None
            name = "refused_usage" if is_refused else "usage"  # which no figure counts
            metadata |= {name: completion.usage.raw, "usage_convention": convention}
        if cost is not None:
            metadata |= {"cost": cost / MICRO, "prices_as_of": prices.as_of}
        return _Answer(completion, cost, EntryDraft(completion.output, metadata=metadata))

    def _append(self, answer: _Answer, on_append: Callable[[RecordedCompletion], None]) -> None:
        assert self._snapshot is not None
        session, completion = self._session, answer.completion
        # The append first counts the tokens of the output, for 0.1 s if it is long.
        with writing_together(lambda: None):
            try:
                appended = append(session.project, session.pk, [answer.draft], expected_position=session.head)
            except (Invalid, ValueError) as error:
                raise ResponseBroken(
                    f"{self._provider.title} sent a response that cannot be recorded: {error}",
                    provider=self._provider.title,
                ) from error
            on_append(RecordedCompletion(appended, completion, self._snapshot, self._latency, answer.cost))
            count_model_calls("call", self._provider.name, 1)

    def _log_failure(self, error: PlayheadError) -> None:
        """Appends an entry about the failure, even if other entries were appended meanwhile."""
        snapshot = self._snapshot = self._snapshot or record_snapshot(self._served)
        is_appended = False
        model = self._request.model
        message = error.detail if "model" in error.fields else f"{model}: {error.detail}"
        fields = {name: value for name, value in error.fields.items() if isinstance(value, (str, int, float))}
        metadata = {**fields, "model": model, "snapshot": str(snapshot.pk)}
        draft = EntryDraft(DebugLog(category=FAILURE_CATEGORY, message=message), metadata=metadata)
        with writing():
            with suppress(Conflict):  # the session was archived meanwhile, so nothing can be appended
                append(self._session.project, self._session.pk, [draft])
                is_appended = True
            count_model_calls("call", self._provider.name, 1, failed=1)
        self._keeps_snapshot = is_appended


def _prefixed_model(session: Session, request: ModelCallRequest) -> str:
    """The model, with its provider as a prefix if the request names one."""
    model, provider = model_of(session, request.context), request.provider
    if provider is None:
        return model
    if provider not in PROVIDERS:
        names = list(PROVIDERS)
        raise Invalid(
            f"There is no provider {provider[:100]!r}. Use one of {', '.join(names)}.", providers=names
        )
    return f"{provider}:{model}"
