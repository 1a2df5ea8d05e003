"""The fields of spending caps, on the pages of a project and of a session."""

from dataclasses import dataclass

from dashboard.access import PersonRequest, actor
from historyapp.core.errors import Invalid
from historyapp.core.usage import MICRO
from historyapp.models import ApiKey, Project, Session, SpendingCounter
from historyapp.models.sessions import large_columns
from historyapp.models.spending import CounterQuerySet
from historyapp.services.caps import Cap, caps_of, set_caps

PERIODS = {"day": "Daily cap", "month": "Monthly cap"}
"""Periods of spending caps, with the labels of their fields."""
MAX_DOLLARS = 1_000_000_000
MAX_SESSIONS = 50
"""The maximum number of sessions with a cap that are listed."""


@dataclass(frozen=True, slots=True)
class CapField:
    """The field of one cap."""

    period: str
    label: str
    cap: Cap | None


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The caps of one API key."""

    key: ApiKey
    fields: list[CapField]


def cap_form(project: Project, session: Session | None = None) -> list[CapField]:
    """The fields of a session's caps, or of those of the project itself."""
    return _fields(
        caps_of(_capped(SpendingCounter.objects.filter(project=project, session=session, key=None)))
    )


def key_forms(project: Project) -> list[KeyForm]:
    """The caps of every usable key of the project, oldest first."""
    caps = caps_of(_capped(SpendingCounter.objects.filter(key__project=project)))
    keys = ApiKey.objects.filter(project=project, revoked_at=None).order_by("created_at", "id")
    return [KeyForm(key, _fields([cap for cap in caps if cap.counter.key_id == key.pk])) for key in keys]


def capped_sessions(project: Project) -> list[Cap]:
    """The caps of sessions, the newest first."""
    counters = SpendingCounter.objects.capped().filter(project=project).exclude(session=None)
    counters = counters.select_related("session").defer(*large_columns("session"))
    return caps_of(list(counters.order_by("-pk")[:MAX_SESSIONS]))


def save_caps(
    request: PersonRequest, project: Project, session: Session | None = None, key: ApiKey | None = None
) -> None:
    """Stores the caps that a form sends.

    Raises:
        Invalid: when one is not a number of dollars.
    """
    limits = {period: read_dollars(request.POST.get(f"{period}_cap", "")) for period in PERIODS}
    set_caps(project, limits, session=session, key=key, actor=actor(request))


def read_dollars(text: str) -> int | None:
    """Millionths of a dollar; None for an empty field."""
    text = text.strip()
    if not text:
        return None
    try:
        dollars = float(text)
    except ValueError:
        dollars = -1
    if not 0 <= dollars <= MAX_DOLLARS:
        raise Invalid(f"A spending cap must be a number from 0 to {MAX_DOLLARS:,}, in US dollars, or empty.")
    return round(dollars * MICRO)


def _capped(counters: CounterQuerySet) -> list[SpendingCounter]:
    return list(counters.capped().select_related("key"))


def _fields(caps: list[Cap]) -> list[CapField]:
    by_period = {cap.counter.period: cap for cap in caps}
    return [CapField(period, label, by_period.get(period)) for period, label in PERIODS.items()]
