"""Caps on spending: the cost of a call is reserved before it begins and corrected after it.

A call whose usage is not known, because its worker was killed or the provider reported none, counts with its
estimate: it may have been paid for.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.utils import timezone

from historyapp.core.usage import Usage
from historyapp.llm.deltas import ModelOutputDelta, RestartedDelta, SilentDelta
from historyapp.models import Project, SpendingCap
from historyapp.models.spending import first_day
from historyapp.services.audit import add_audit_record
from historyapp.services.prices import price_list
from historyapp.services.transactions import writing
from historyapp.wire.problems import CapReached

MARGIN = 1.3
"""Providers count up to this many times the input tokens that we count."""
OUTPUT_LIMIT = 8_192
"""Output tokens of a call that sets no limit, where a cap applies: without one its cost has no bound."""


@dataclass(slots=True)
class Reservation:
    """What one model call may cost, counted in every cap of its project."""

    project_id: UUID
    model: str
    attempt: int = 0
    """The most that one attempt may cost, in millionths of a dollar."""
    is_answered: bool = False
    """Whether the provider has sent a part of an answer."""
    periods: dict[int, date] = field(default_factory=dict)
    """The caps that it counts in, by primary key, each with the first day of the period."""

    @property
    def is_capped(self) -> bool:
        return bool(self.periods)

    def add_attempt(self) -> None:
        """Reserves one attempt more.

        Raises:
            CapReached: when it would not fit into a cap.
        """
        with writing():
            now = timezone.now()
            caps = list(
                SpendingCap.objects.select_for_update().filter(project_id=self.project_id).order_by("pk")
            )
            for cap in caps:
                cap.begin_period(now)
                if cap.spent + self.attempt > cap.limit:
                    raise _reached(cap, self)
            for cap in caps:
                cap.spent += self.attempt
                cap.save(update_fields=("spent", "starts_on"))
                self.periods[cap.pk] = cap.starts_on

    def settle(self, cost: int | None) -> None:
        """Corrects what is counted to what the call cost. Attempts that broke keep their estimates.

        Args:
            cost: of the last attempt, in millionths of a dollar. None: not known, so that the estimate stays.
        """
        if cost is None or not self.is_capped:
            return
        with writing():
            for pk, starts_on in self.periods.items():
                found = SpendingCap.objects.filter(pk=pk, starts_on=starts_on, spent__gte=self.attempt)
                found.update(spent=F("spent") - self.attempt + cost)

    def abandon(self) -> None:
        """Ends a call that failed. It costs nothing where the provider had sent nothing of an answer."""
        if not self.is_answered:
            self.settle(0)

    def watch(self, deltas: Iterable[ModelOutputDelta]) -> Generator[ModelOutputDelta]:
        """The deltas of the call. An attempt after a broken one is paid for again, so it is reserved."""
        for delta in deltas:
            if isinstance(delta, RestartedDelta) and self.is_capped:
                self.add_attempt()
            self.is_answered = self.is_answered or not isinstance(delta, SilentDelta)
            yield delta


def reserve(project_id: UUID, model: str, tokens_in: int, tokens_out: int | None) -> Reservation:
    """Counts the most that a model call may cost in every cap of the project, in one transaction.

    Args:
        tokens_in: by our own count.
        tokens_out: the call's output limit; None: ``OUTPUT_LIMIT``.

    Raises:
        CapReached: when the call would not fit into a cap, or the price of its model is not known.
    """
    reservation = Reservation(project_id, model)
    cap = SpendingCap.objects.filter(project_id=project_id).order_by("pk").first()
    if cap is None:
        return reservation
    price = price_list().of(model)
    if price is None:
        raise CapReached(
            f"The project has a spending cap of {cap}, and the price of {model} is not known. Choose a model "
            "of the price list, or ask the operator to add its price to PLAYHEAD_PRICES.",
            model=model,
        )
    sent, limit = round(tokens_in * MARGIN), tokens_out or OUTPUT_LIMIT
    uncached, cached = Usage(sent, limit), Usage(sent, limit, cache_write=sent)
    reservation.attempt = max(price.cost(uncached), price.cost(cached))
    reservation.add_attempt()
    return reservation


def _reached(cap: SpendingCap, reservation: Reservation) -> CapReached:
    dollars = reservation.attempt / 1_000_000
    return CapReached(
        f"The project may spend {cap} and has spent ${cap.spent / 1_000_000:,.4f}, calls under way included. "
        f"This call may cost ${dollars:,.4f}. The next {cap.period} begins at "
        f"{cap.ends_at:%Y-%m-%d %H:%M} UTC. Wait until then, or ask an owner to raise the cap in the "
        "project's settings.",
        period=cap.period,
        limit=cap.limit / 1_000_000,
        spent=cap.spent / 1_000_000,
        ends_at=cap.ends_at.isoformat().replace("+00:00", "Z"),
    )


@contextmanager
def short_connection() -> Generator[None]:
    """Closes this thread's connection at the end: a thread of a pool would keep it open for ever."""
    try:
        yield
    finally:
        if not connection.in_atomic_block:
            connection.close()


def set_caps(project: Project, limits: Mapping[str, int | None], *, actor: str = "") -> None:
    """Sets caps by period, in millionths of a dollar; None removes one. What was spent stays counted."""
    now = timezone.now()
    with writing():
        for period, limit in limits.items():
            caps = SpendingCap.objects.filter(project=project, period=period)
            if limit is None:
                changed = caps.delete()[0]
            elif not (changed := caps.exclude(limit=limit).update(limit=limit)) and not caps.exists():
                first = first_day(period, now)
                SpendingCap.objects.create(project=project, period=period, limit=limit, starts_on=first)
                changed = 1
            if changed:
                detail = {"period": period, "limit": None if limit is None else limit / 1_000_000}
                add_audit_record(project.pk, actor, "change spending cap", None, detail)


def caps_of(project: Project, now: datetime | None = None) -> list[SpendingCap]:
    """The project's caps with what the present period has spent, the day first."""
    caps = list(SpendingCap.objects.filter(project=project).order_by("period"))
    for cap in caps:
        cap.begin_period(now or timezone.now())
    return caps
