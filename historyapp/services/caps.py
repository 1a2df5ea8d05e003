"""Sets the spending caps of projects, sessions and API keys, and reads how much of each is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from historyapp.core.usage import MICRO
from historyapp.models import ApiKey, Project, Session, SpendingCounter, SpendingReservation
from historyapp.models.database_clock import database_now
from historyapp.models.spending import period_start
from historyapp.services.audit import add_audit_record
from historyapp.services.reservations import counters_of, lock_all
from historyapp.services.spending import Payer
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap, with the amount spent in the current day or month. Amounts are in millionths of a dollar."""

    counter: SpendingCounter
    limit: int
    spent: int
    reserved: int
    """For running model calls."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.spent - self.reserved)


def set_caps(
    project: Project,
    limits: Mapping[str, int | None],
    *,
    session: Session | None = None,
    key: ApiKey | None = None,
    actor: str = "",
) -> None:
    """Sets the caps of the project, or of one of its sessions or API keys.

    Amounts spent in the current period before the cap was set count too.

    Args:
        limits: by period, in millionths of a dollar; None removes a cap.
        session: not together with ``key``.
    """
    now, subject = database_now(), {"session": session, "key": key}
    with writing():
        lock_all(SpendingCounter.objects.of_project(project.pk))
        for period, limit in limits.items():
            counter, _ = SpendingCounter.objects.select_for_update().get_or_create(
                project=project, period=period, **subject, defaults={"starts_on": period_start(period, now)}
            )
            if counter.limit != limit:
                counter.limit, counter.refused_on = limit, None
                counter.save(update_fields=("limit", "refused_on"))
                detail: dict[str, object] = {
                    "period": period,
                    "limit": None if limit is None else limit / MICRO,
                }
                if key is not None:
                    detail["key"] = str(key.pk)
                session_id = session.pk if session is not None else None
                add_audit_record(project.pk, actor, "change spending cap", session_id, detail)


def caps_of(counters: Sequence[SpendingCounter], now: datetime | None = None) -> list[Cap]:
    """The caps of the counters that have one, with the amounts spent in the current periods. The counters
    belong to one project."""
    now = now or database_now()
    projects = {counter.project_id for counter in counters}
    active = list(SpendingReservation.objects.running().filter(project__in=projects))
    caps = []
    for counter in counters:
        counter.begin_period(now)
        reserved = sum(row.amount for row in active if row.counts_in(counter))
        # The two queries are not atomic: reservations may end between them.
        reserved = min(reserved, counter.counted)
        caps.append(Cap(counter, counter.limit or 0, counter.counted - reserved, reserved))
    return caps


def project_caps(project: Project) -> list[Cap]:
    """The project's own caps, the daily one first."""
    return caps_of(list(SpendingCounter.objects.of_project(project.pk).capped().order_by("period")))


def applicable_caps(session: Session, key: ApiKey | None = None) -> list[Cap]:
    """The caps that apply to a model call in the session: of the project, the session, its ancestors and the
    key."""
    payer = Payer(session.project_id, session.pk, None if key is None else key.pk)
    order = ("session_id", "period")
    return caps_of(
        [
            counter
            for counters in counters_of(payer)
            for counter in counters.capped().select_related("key").order_by(*order)
        ]
    )
