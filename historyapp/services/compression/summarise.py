"""Makes the summary of one item with the run's strategy and model, and counts its cost."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError

from historyapp.core.budget import meter_for
from historyapp.core.errors import Invalid, PlayheadError
from historyapp.core.formats import format_named
from historyapp.core.json import dump_json
from historyapp.core.settings import load_settings
from historyapp.core.strategies.base import Material, NotSummarised, SummaryDraft, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest
from historyapp.core.usage import Usage
from historyapp.llm.completions import collect
from historyapp.llm.errors import (
    KeyRefused,
    LimitReached,
    ModelCallError,
    ProviderUnreachable,
    RequestRefused,
    TimedOut,
)
from historyapp.llm.model_calls import call_model
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.response_memory import RESPONSES
from historyapp.llm.retries import RetryPolicy
from historyapp.llm.router import LOCAL, ProviderRouter
from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.compressions import AUTOMATIC
from historyapp.services.compression.provider_limits import begin_pause, note_answer, wait_for_provider
from historyapp.services.compression.request import instruction_of
from historyapp.services.connections import short_connection
from historyapp.services.corrections import correction_of, learned_factor
from historyapp.services.model_call_threads import sleep
from historyapp.services.prices import price_list
from historyapp.services.reservations import Reservation, reserve
from historyapp.services.spending import Payer
from historyapp.services.summary_writers.writers import (
    Caller,
    SummaryTookTooLong,
    WriteCancelled,
    Writer,
    WriterFault,
)
from historyapp.services.transactions import writing
from historyapp.wire.problems import CapReached, ServerUnavailable, SpendForbidden

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_PROJECT = UUID(int=0)
LIMITS = TimeLimits(connect=10, read=60, total=120)
REACH_PAUSE, MAX_WAIT = 0.5, 600.0
"""Seconds between two attempts to reach the database before a model call, and how long they are repeated."""
UNEXPECTED_ERROR = "An unexpected {}; the worker's log has details."


@dataclass(frozen=True, slots=True)
class ItemUsage:
    """The usage of one item's model calls."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int | None = 0
    """In millionths of a dollar; None if the price is not known."""
    tokens_lost: int = 0
    """Input tokens of failed attempts that may be billed, as Playhead counts them; providers do not."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    item: int
    """The item's primary key."""
    draft: SummaryDraft | None = None
    """None if the item failed."""
    error: str = ""
    tokens: int = 0
    """Tokens of the draft."""
    note: str = ""
    """A sentence for the run's note, or empty."""
    usage: ItemUsage = ItemUsage()
    fatal: bool = False
    """Whether every other item would fail for the same reason, such as a missing key or a reached cap."""
    unreachable: bool = False
    """Whether the provider did not respond. If it has not responded for any item of the run, the run ends."""
    may_be_billed: bool = False
    """Whether the provider may bill one of its failed model calls."""
    interrupted: bool = False
    """Whether the claim or the run ended after some model calls of the item. Only their usage is stored."""


class ClaimEnded(Exception):
    """A model call was not made, because the run or the worker's claim on the item has ended. Another worker
    may make and pay it."""


class Summariser:
    """Makes the summaries of a run's items, in any thread. A failure is returned as a result."""

    def __init__(
        self, run: CompressionRun, writer: Writer, has_ended: Callable[[], bool] = lambda: False
    ) -> None:
        """``has_ended``: whether the run has ended, for example because it was cancelled."""
        session_settings = load_settings(run.session.settings)
        self._writer, self._model = writer, run.model
        self.calls_model = run.model not in ("", LOCAL)
        self.provider = run.model.partition(":")[0] if self.calls_model else ""
        # A run with a model stops before its next model call, and not while it writes.
        is_cancelled = (lambda: False) if self.calls_model else has_ended
        self._caller = Caller(run.session.project_id, is_cancelled)
        language = session_settings.spacy_language_model
        note = "" if self.calls_model else writer.language_note(language, self._caller)
        if note:
            with writing():
                locked = CompressionRun.objects.select_for_update().get(pk=run.pk)
                add_note(locked, note)
        self._request = WriteRequest(
            run.strategy,
            [],
            language,
            window=settings.PLAYHEAD_MODEL_WINDOW,
            max_length=session_settings.max_summary_length,
            options=run.options,
            instruction=instruction_of(session_settings, run.session.project),
        )
        self._logged: set[object] = set()
        self._payer = _payer_of(run)
        self._read_payer = partial(_read_payer, run.pk)

    def summarise(
        self,
        item: CompressionItem,
        source: Material | list[str],
        may_call: Callable[[], bool] = lambda: True,
    ) -> ItemResult:
        """Summarises an item.

        Args:
            source: steps, or for a digest the texts of summaries.
            may_call: whether the item may have another model call, asked before each one.

        Raises:
            WriteCancelled: when a run without a model has ended meanwhile.
            ClaimEnded: when the claim or the run has ended before the first model call.
        """
        model: MeteredModel | None = None
        try:
            if self.calls_model:
                model = MeteredModel(self._model, self._payer, may_call, self._read_payer)
            request = replace(self._request, source=source)
            if not isinstance(source, Material):
                # Half of the length is left for later summaries: otherwise the next one would need another
                # digest.
                request = replace(request, max_length=max(1, request.max_length // 2))
            written = self._writer.write(request, model.complete if model else None, self._caller)
            result = ItemResult(item.pk, written.draft, tokens=written.tokens, note=written.note)
        except WriteCancelled:
            raise
        except ClaimEnded:
            if model is None or not model.usage.calls:
                raise
            result = ItemResult(item.pk, interrupted=True)
        except SummaryTookTooLong as error:
            log.warning(
                "Item %s (%s) of the run %s: %s", item.number, _step_range(item), item.run_id, error.detail
            )
            result = ItemResult(item.pk, error=f"{_step_range(item).capitalize()}: {error.detail}")
        except PlayheadError as error:
            # If a provider fails, every item fails for the same reason, which is logged once.
            detail = getattr(error, "provider_message", "") or getattr(error, "provider_status", None)
            reason = type(error), detail
            if reason not in self._logged:
                self._logged.add(reason)
                log.warning("Item %s of the run %s failed: %s", item.number, item.run_id, error.detail)
            unreachable = isinstance(error, (ProviderUnreachable, TimedOut))
            result = ItemResult(item.pk, error=error.detail, fatal=_is_fatal(error), unreachable=unreachable)
        except WriterFault as error:
            log.error(
                "Item %s of the run %s failed: %s at %s", item.number, item.run_id, error.name, error.place
            )
            result = ItemResult(item.pk, error=UNEXPECTED_ERROR.format(error.name))
        except Exception as error:  # the other items must still get their summaries
            log.exception("Item %s of the run %s failed", item.number, item.run_id)
            result = ItemResult(item.pk, error=UNEXPECTED_ERROR.format(type(error).__name__))
        if model is not None:
            result = replace(result, usage=model.usage, may_be_billed=model.may_be_billed)
        return result


def _payer_of(run: CompressionRun) -> Payer:
    kind, _, name = run.actor.partition(":")
    return Payer(
        run.project_id,
        run.session_id,
        run.api_key_id,
        person=name if kind == "user" else "",
        automatic=run.actor == AUTOMATIC,
    )


def _read_payer(run_id: UUID) -> Payer:
    """The run's payer now: somebody else may have cancelled and retried it while a worker continues with it.

    Raises:
        ClaimEnded: when its session was deleted.
    """
    run = CompressionRun.objects.filter(pk=run_id).first()
    if run is None:
        raise ClaimEnded
    return _payer_of(run)


def _step_range(item: CompressionItem) -> str:
    first, last = item.first_step, item.last_step
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _is_fatal(error: PlayheadError) -> bool:
    """Whether every other model call of the run would fail for the same reason."""
    if isinstance(error, RequestRefused):
        return error.provider_status == 404
    if isinstance(error, LimitReached):
        return not error.retryable
    return isinstance(error, (KeyRefused, Invalid, CapReached, SpendForbidden))


def add_note(run: CompressionRun, note: str) -> None:
    """Adds a sentence to the note of a locked run, unless it is there: several workers may add the same
    one."""
    if note not in run.note:
        run.note = " ".join(filter(None, (run.note, note)))
        run.save(update_fields=("note",))


class MeteredModel:
    """The run's model for one item. Each model call adds to ``usage``, even if it fails."""

    def __init__(
        self,
        model: str,
        payer: Payer | None,
        may_call: Callable[[], bool] = lambda: True,
        read_payer: Callable[[], Payer] | None = None,
    ) -> None:
        """
        Args:
            payer: the payer whose caps apply; None: no cap applies.
            may_call: whether model calls may still be made.
            read_payer: reads the payer for each model call, if another one may replace it.
        """
        self._model, self._payer, self._may_call = model, payer, may_call
        self._read_payer = read_payer
        self._provider = ProviderRouter().route(model).provider
        self._meter = meter_for(self._provider.format, model)
        self._price = price_list().of(model)
        self.usage = ItemUsage(cost=0 if self._price else None)
        self.may_be_billed = False
        """Whether the provider may bill one of the attempts that failed."""

    def complete(self, prompt: SummaryPrompt) -> str:
        """The completion's text.

        Raises:
            NotSummarised: when the model refuses, or reaches its output limit without any text.
            Invalid, ModelCallError: as ``call_model``.
            CapReached: when a spending cap leaves too little for the model call.
            ClaimEnded: when the run or the worker's claim has ended.
        """
        provider = self._provider.name
        format = format_named(self._provider.format)
        formatted = format.prompt(prompt.instruction, prompt.material, prompt.answer_schema)
        request = ModelRequest(self._model, formatted.context, prompt.max_output_tokens, formatted.options)
        project = self._payer.project_id if self._payer else NO_PROJECT
        wait_for_provider(provider, self._model, project, self._check_allowed)
        schema = dump_json(prompt.answer_schema) if prompt.answer_schema else ""
        tokens = sum(map(self._meter.count, (prompt.instruction, prompt.material, schema)))
        reservation = self._reserve(tokens, prompt.max_output_tokens)
        before_retry = partial(self._before_retry, reservation, tokens)
        retries = RetryPolicy(attempts=5, on_retry=before_retry, sleep=partial(self._sleep, reservation))
        try:
            self._check_allowed()
            with RESPONSES.held(project) as count_memory:
                deltas = call_model(request, limits=LIMITS, retries=retries, count_memory=count_memory)
                completion = collect(reservation.watch(deltas))
        except Exception as error:
            self._note_failure(reservation, error, tokens)
            with short_connection(("calls", reservation.payer.project_id)):
                reservation.fail(error)
            if reservation.may_be_billed or isinstance(error, (ModelCallError, ValueError, Invalid)):
                self._add_usage(Usage())  # providers do not report the usage of a failed model call
            raise
        note_answer(self._model, project)
        text = completion.output.text
        counted = Usage(ceil(tokens * self._meter.factor), self._meter.text_tokens(text))
        billed = completion.billed
        cost = reservation.believed(self._price, billed) if billed and self._price else None
        if self._price and cost is None:
            billed = None
        usage = billed or counted
        self._add_usage(usage)
        if self._price is not None:
            with short_connection(("calls", reservation.payer.project_id)):
                reservation.settle(cost)
        reason = completion.finished.reason
        if reason == "refusal":
            raise NotSummarised(f"The model refused: {text[:200] or 'it gave no reason'}")
        if reason == "length" and not text.strip():
            raise NotSummarised(
                "The model used all its output tokens and wrote no text. Choose another model."
            )
        return text

    def _sleep(self, reservation: Reservation, seconds: float) -> None:
        """Waits before another attempt, and then checks that it may still be sent."""
        sleep(seconds)
        try:
            self._check_allowed()
            if self._payer is not None:
                self._reach(reservation.check)
        except (ClaimEnded, CapReached, SpendForbidden):
            # For the failed attempts, which may be billed. complete() does it for ModelNotAllowed.
            self._add_usage(Usage())
            raise

    def _check_allowed(self) -> None:
        if not self._may_call():
            raise ClaimEnded

    def _reserve(self, tokens: int, max_output_tokens: int) -> Reservation:
        """Reserves a model call whose prompt has this many tokens, uncorrected."""
        if self._payer is None:
            return Reservation(Payer(NO_PROJECT, NO_PROJECT), self._model)
        known_payer = self._payer

        def access() -> Reservation:
            payer = self._read_payer() if self._read_payer else known_payer
            learned = learned_factor(correction_of(payer.project_id, self._model))
            tokens_in = ceil((tokens + 100) * max(self._meter.factor, learned or 0))
            return reserve(payer, self._model, tokens_in, max_output_tokens, purpose="compression")

        return self._reach(access)

    def _reach(self, access: Callable[[], T]) -> T:
        """The result of ``access``, repeated while the database cannot be used and the claim has not ended.

        Nothing is paid meanwhile, and afterwards the item's worker waits for the database itself.
        """
        until = time.monotonic() + MAX_WAIT
        while True:
            try:
                with short_connection(("calls", self._payer.project_id if self._payer else NO_PROJECT)):
                    return access()
            except (OperationalError, InterfaceError, ServerUnavailable):
                self._check_allowed()
                if time.monotonic() >= until:
                    raise
            sleep(REACH_PAUSE)

    def _before_retry(
        self, reservation: Reservation, tokens: int, failure: ModelCallError, wait: float
    ) -> None:
        """Reserves the next attempt, if the failed one may be billed, and makes all workers pause if
        necessary."""
        self._note_failure(reservation, failure, tokens)
        self._reach(partial(reservation.retry, failure, wait))
        # A provider's limit for a model applies to all calls with its key.
        if isinstance(failure, LimitReached):
            begin_pause(self._model, reservation.payer.project_id, wait)

    def _note_failure(self, reservation: Reservation, failure: Exception, tokens: int) -> None:
        """Notes a failed attempt, whose prompt has this many tokens, uncorrected."""
        if reservation.is_billed(failure):
            self.may_be_billed = True
            lost = self.usage.tokens_lost + ceil(tokens * self._meter.factor)
            self.usage = replace(self.usage, tokens_lost=lost)

    def _add_usage(self, usage: Usage) -> None:
        total, price = self.usage, self._price
        self.usage = ItemUsage(
            total.calls + 1,
            total.tokens_in + usage.input,
            total.tokens_out + usage.output,
            None if total.cost is None or price is None else total.cost + price.of_request(usage),
            total.tokens_lost,
        )
