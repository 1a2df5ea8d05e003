"""Reserves the maximum cost of a model call before it starts and corrects it afterwards, so that no cap is
exceeded.

If the cost of a model call stays unknown, because its process was killed or the provider reported no usage,
the reserved maximum counts, because the call may have been billed.
"""

import logging
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from django.db.models import F
from uuid_utils.compat import uuid7

from historyapp.core.errors import Invalid
from historyapp.core.prices import Price
from historyapp.core.usage import MICRO, Usage
from historyapp.llm.deltas import ModelOutputDelta, SilentDelta
from historyapp.llm.errors import KeyRefused, LimitReached, ModelCallError, ProviderFailed, RequestRefused
from historyapp.llm.router import ProviderRouter
from historyapp.models import SpendingCounter, SpendingReservation
from historyapp.models.database_clock import claim_now, database_now
from historyapp.models.spending import (
    MAX_ANCESTORS,
    MAX_DURATION,
    CounterQuerySet,
    period_start,
    period_start_of_day,
    with_ancestors,
)
from historyapp.services.cap_refusals import cap_exceeded, unknown_price
from historyapp.services.changes import record_cap_refusal
from historyapp.services.faults import UNREACHABLE
from historyapp.services.prices import price_list
from historyapp.services.spending import Payer
from historyapp.services.totals import count_cost
from historyapp.services.transactions import writing

log = logging.getLogger(__name__)

INPUT_TOKEN_MARGIN = 1.3
"""A provider's count of input tokens is at most our count times this factor."""
OUTPUT_LIMIT = 8_192
"""The limit for output tokens where a cap applies and the request sets none: otherwise the cost has no
bound."""
PLAUSIBLE_FACTOR, ALWAYS_PLAUSIBLE = 10, MICRO
"""A provider's usage is believed if the input costs at most this factor of what was sent, and the output has
at most this factor of the limit that was sent. An input, or a call, of this many millionths of a dollar is
always believed."""
LARGEST_OUTPUT = 1_000_000
"""The output tokens of a call without a limit that are believed. No model writes more."""
LARGEST_UNKNOWN_INPUT = 1_000_000
"""Input tokens that are taken as sent with a file that only the provider reads, or a tool that it runs."""
PERIODS = SpendingCounter.Period.values


@dataclass(slots=True)
class Reservation:
    """The maximum cost of one model call, which is included in the counters of its payer."""

    payer: Payer
    model: str
    attempt_cost: int = 0
    """The maximum cost of one attempt, in millionths of a dollar."""
    unpriced: str = ""
    """A description of an option or tool of the request without a known price."""
    uncounted: str = ""
    """A description of a part of its content whose tokens are not known."""
    plausible_input: int = 0
    """The cost of the input up to which its usage is believed, in millionths of a dollar."""
    plausible_output: int = 0
    """The same in tokens of the output."""
    is_capped: bool = False
    """Whether any cap applies."""
    id: UUID | None = None
    """The id of the stored reservation; None if nothing is reserved."""
    may_be_billed: bool = False
    """Whether the provider may bill the newest attempt: it has sent a part of its response, or the
    connection ended after the request was sent."""
    purpose: str = "call"
    """``call`` or ``compression``, for the totals of ``/metrics``."""
    _counters: list[int] = field(default_factory=list)

    def add_attempt(self) -> None:
        """Reserves one attempt.

        Raises:
            CapReached: when a cap leaves too little for it.
        """
        now = database_now()
        with writing():
            counters = lock_counters(self.payer, now)
            self.is_capped = any(counter.limit is not None for counter in counters)
            reached = [
                counter
                for counter in counters
                if counter.limit is not None and counter.counted + self.attempt_cost > counter.limit
            ]
            if not reached:
                self._counters = [counter.pk for counter in counters]
                counted = SpendingCounter.objects.filter(pk__in=self._counters)
                counted.update(counted=F("counted") + self.attempt_cost)
                self._store(next(row.starts_on for row in counters if row.period == "day"))
        self._refuse_if_any(reached)

    def _refuse_if_any(self, reached: list[SpendingCounter]) -> None:
        """Raises ``CapReached`` for the cap that ends last; on the last day of a month, the month's."""
        if reached:
            cap = max(reached, key=lambda counter: (counter.ends_at, counter.period == "month"))
            record_cap_refusal(self.payer.session_id, cap)
            raise cap_exceeded(cap, self.attempt_cost)

    def _store(self, day: date) -> None:
        stored = SpendingReservation.objects
        _count_expired(self.payer.project_id)
        if self.id and stored.filter(pk=self.id).update(amount=F("amount") + self.attempt_cost):
            return
        self.id = uuid7()
        stored.create(
            id=self.id,
            project_id=self.payer.project_id,
            counters=self._counters,
            amount=self.attempt_cost,
            label=f"{self.purpose} {ProviderRouter().route(self.model).provider.name}",
            day=day,
            expires_at=claim_now() + MAX_DURATION,
        )

    def believed(self, price: Price, billed: Usage) -> int | None:
        """The cost of the last attempt by the provider's usage. None if it is not plausible: the numbers of a
        broken proxy would otherwise use up a project's caps with one answer."""
        price = price.for_request(billed.input)
        cost, cost_of_input = price.cost(billed), price.cost(billed._replace(output=0))
        if not self.attempt_cost or cost <= ALWAYS_PLAUSIBLE:
            return cost
        is_plausible = cost_of_input <= self.plausible_input and billed.output <= self.plausible_output
        return cost if is_plausible else None

    def settle(self, cost: int | None) -> None:
        """Ends the reservation, if it has not ended yet. Earlier attempts keep their reserved maximum, and so
        does the last one while the database cannot be used. It can be called again then.

        Args:
            cost: the cost of the last attempt, in millionths of a dollar; None if unknown: then the reserved
                maximum counts.
        """
        if self.id is None:
            return
        try:
            with writing():
                lock_all(SpendingCounter.objects.of_project(self.payer.project_id))
                row = SpendingReservation.objects.filter(pk=self.id).first()
                if row is not None:  # otherwise it has expired
                    row.delete()
                    change = 0 if cost is None else cost - self.attempt_cost
                    self._correct(row, change)
                    count_cost(row.label, row.amount + change)
        except UNREACHABLE as error:
            # The response is paid for and must not be lost with it.
            log.warning("The reserved maximum of a model call of %s counts: %s", self.payer.session_id, error)
        else:
            self.id = None

    def _correct(self, row: SpendingReservation, change: int) -> None:
        for period in PERIODS if change else ():
            counters = SpendingCounter.objects.filter(
                pk__in=row.counters,
                period=period,
                starts_on=period_start_of_day(period, row.day),
                counted__gte=-change,
            )
            counters.update(counted=F("counted") + change)

    def is_billed(self, error: Exception) -> bool:
        """Whether the provider may bill the newest attempt, which has failed."""
        return self.may_be_billed or not costs_nothing(error)

    def fail(self, error: Exception) -> None:
        """Ends the reservation of a failed model call. A call that the provider refused costs nothing."""
        self.settle(None if self.is_billed(error) else 0)

    def retry(self, failure: ModelCallError, wait: float) -> None:
        """Reserves the next attempt, unless the failed one cost nothing. Used as ``RetryPolicy.on_retry``.

        Raises:
            CapReached: when a cap leaves too little for it.
        """
        self.may_be_billed = self.is_billed(failure)
        if self.id is not None and self.may_be_billed:
            self.add_attempt()
        self.may_be_billed = False

    def check(self) -> None:
        """Repeats the checks of :func:`reserve` before another attempt, which may have waited for a minute.

        Raises:
            CapReached: when a cap was lowered below what is counted, or set while the price is not known.
            ModelNotAllowed, SpendForbidden: as :meth:`Payer.check`.
        """
        self.payer.check(self.model, self.unpriced)
        if self.id is None:
            self.check_price(price_list().of(self.model))
            return
        now, reached = database_now(), list[SpendingCounter]()
        for counters in counters_of(self.payer):
            for cap in counters.capped():
                cap.begin_period(now)
                if cap.limit is not None and cap.counted > cap.limit:
                    reached.append(cap)
        self._refuse_if_any(reached)

    def check_price(self, price: Price | None) -> None:
        """Refuses a call without a known price if a cap applies."""
        if not self.unpriced and not self.uncounted and price is not None:
            return
        sessions = _counted_sessions(self.payer)
        caps = [cap for counters in counters_of(self.payer, sessions) for cap in counters.capped()]
        if caps:
            raise unknown_price(caps[0], self.model, self.unpriced or self.uncounted)

    def watch(self, deltas: Iterable[ModelOutputDelta]) -> Generator[ModelOutputDelta]:
        """Yields the deltas unchanged, and records whether the provider has responded."""
        for delta in deltas:
            self.may_be_billed = self.may_be_billed or not isinstance(delta, SilentDelta)
            yield delta


def costs_nothing(error: Exception) -> bool:
    """Whether an attempt without a response costs nothing, because it was refused or never sent.

    A provider that stops responding may still bill the model call.
    """
    if not isinstance(error, ModelCallError):
        return True  # the request could not be written, or there is no key
    return error.never_sent or isinstance(error, (RequestRefused, KeyRefused, LimitReached, ProviderFailed))


def reserve(
    payer: Payer,
    model: str,
    tokens_in: int,
    tokens_out: int | None,
    unpriced: str = "",
    *,
    uncounted: str = "",
    purpose: str = "call",
) -> Reservation:
    """Adds the maximum cost of a model call to every counter of its payer, in one transaction.

    Args:
        tokens_in: as Playhead counts them.
        tokens_out: the limit of the model call; None: ``OUTPUT_LIMIT``.
        unpriced: a description of an option or tool of the request without a known price.
        uncounted: a description of a part of its content whose tokens are not known.
        purpose: ``call`` or ``compression``.

    Raises:
        CapReached: when a cap leaves too little for the call, or applies and the call's price is not known.
        ModelNotAllowed, SpendForbidden: as :meth:`Payer.check`.
        Invalid: when the session has too many ancestors.
    """
    payer.check(model, unpriced)
    reservation = Reservation(payer, model, unpriced=unpriced, uncounted=uncounted, purpose=purpose)
    price = price_list().of(model)
    reservation.check_price(price)
    if price is None:
        return reservation
    sent, limit = round(tokens_in * INPUT_TOKEN_MARGIN), tokens_out or OUTPUT_LIMIT
    reservation.attempt_cost = _highest_cost(price, sent, limit)
    reservation.add_attempt()
    has_limit = tokens_out is not None or reservation.is_capped
    known = max(sent, LARGEST_UNKNOWN_INPUT) if unpriced or uncounted else sent
    reservation.plausible_input = max(PLAUSIBLE_FACTOR * _highest_cost(price, known, 0), ALWAYS_PLAUSIBLE)
    reservation.plausible_output = PLAUSIBLE_FACTOR * limit if has_limit else LARGEST_OUTPUT
    return reservation


def _highest_cost(price: Price, tokens_in: int, tokens_out: int) -> int:
    """The cost without a cache, or with all of the input written to one if that is more."""
    price = price.for_request(tokens_in)
    uncached, cached = Usage(tokens_in, tokens_out), Usage(tokens_in, tokens_out, cache_write=tokens_in)
    return max(price.cost(uncached), price.cost(cached))


def counters_of(payer: Payer, sessions: Sequence[UUID] | None = None) -> list[CounterQuerySet]:
    """The counters of the payer: those of the project, the session with its ancestors, and the key.

    They are separate querysets, because each of them can use an index, and one query for all could not.

    Args:
        sessions: the session and its ancestors, if the caller has read them.
    """
    counters = SpendingCounter.objects
    of_sessions = counters.filter(session__in=sessions or with_ancestors(payer.session_id))
    of_key = [] if payer.key_id is None else [counters.filter(key=payer.key_id)]
    return [counters.of_project(payer.project_id), of_sessions, *of_key]


def lock_counters(payer: Payer, now: datetime) -> list[SpendingCounter]:
    """Locks the payer's counters and sets them to the current period. Creates missing ones."""
    sessions = _counted_sessions(payer)
    subjects: list[dict[str, UUID]] = [{}, *({"session_id": id} for id in sessions)]
    subjects += [] if payer.key_id is None else [{"key_id": payer.key_id}]
    of_project, *_ = counters_of(payer, sessions)
    if len(lock_all(of_project)) < len(PERIODS):
        # Counters of the project are always locked first, so they are created before others are locked.
        _create_counters(payer.project_id, subjects, now)
    locked = [counter for counters in counters_of(payer, sessions) for counter in lock_all(counters)]
    if len(locked) < len(PERIODS) * len(subjects):
        _create_counters(payer.project_id, subjects, now)
        locked = [counter for counters in counters_of(payer, sessions) for counter in lock_all(counters)]
    stored = {counter.pk: counter.starts_on for counter in locked}
    for counter in locked:
        counter.begin_period(now)
    for period in PERIODS:  # one statement for all, because a fork of forks has hundreds of counters
        moved = [row for row in locked if row.period == period and row.starts_on != stored[row.pk]]
        if moved:
            rows = SpendingCounter.objects.filter(pk__in=[row.pk for row in moved])
            rows.update(starts_on=period_start(period, now))
            rows.filter(pk__in=[row.pk for row in moved if not row.counted]).update(counted=0)
    return locked


def _counted_sessions(payer: Payer) -> list[UUID]:
    """The session and its ancestors.

    Raises:
        Invalid: when there are too many. Writing their counters would hold up all other writers of SQLite,
            and leaving some out would evade their caps.
    """
    sessions = with_ancestors(payer.session_id)
    if len(sessions) > MAX_ANCESTORS:
        raise Invalid(
            f"The session has more than {MAX_ANCESTORS} ancestors, which it was forked from or started by. "
            "Its model calls would count towards the caps of all of them. Start a new session."
        )
    return sessions


def lock_all(counters: CounterQuerySet) -> list[SpendingCounter]:
    """The counters, locked until the transaction ends.

    Every transaction locks the counters of the project first. So the model calls of a project are counted one
    after another, without deadlocks.
    """
    return list(counters.select_for_update().order_by("pk"))


def _create_counters(project_id: UUID, subjects: list[dict[str, UUID]], now: datetime) -> None:
    counters = [
        SpendingCounter(project_id=project_id, period=period, starts_on=period_start(period, now), **subject)
        for subject in subjects
        for period in PERIODS
    ]
    SpendingCounter.objects.bulk_create(counters, ignore_conflicts=True)


def _count_expired(project_id: UUID) -> None:
    """Ends the reservations of killed processes. Their maximum stays in the counters, so it is their cost."""
    expired = list(SpendingReservation.objects.expired().filter(project_id=project_id))
    if expired:
        SpendingReservation.objects.filter(pk__in=[row.pk for row in expired]).delete()
    for row in sorted(expired, key=lambda row: row.label):
        count_cost(row.label, row.amount)
