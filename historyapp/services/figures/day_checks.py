"""Counts figures by day again and compares them with the stored ones, for ``rebuild-projections``."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import F, Value
from django.db.models.functions import Coalesce, NullIf

from historyapp.core.day_figures import NO_FIGURES, DayFigures, FiguresKey
from historyapp.models import CountedSession, Project, ProjectDay, Session, SessionDay
from historyapp.services.figures.day_figures import count_part, stored_rows
from historyapp.services.figures.day_rows import Agents, add_to_days
from historyapp.services.transactions import writing

_COLUMNS = ("agent", *FiguresKey._fields, *DayFigures._fields)
_FIGURES_AT = 1 + len(FiguresKey._fields)


def recount_days(session: Session) -> list[str]:
    """Counts a session's figures from its beginning. Reports whether they differ from the stored ones."""
    counted = CountedSession.objects.filter(pk=session.pk)
    if not counted.exists():
        return []  # the session has not been counted yet
    _count(session)
    before = set(stored_rows(session.pk))
    counted.update(version=0)
    _count(session)
    return [] if set(stored_rows(session.pk)) == before else ["figures by day differed"]


def _count(session: Session) -> None:
    left = [session.pk]
    while left:
        left = count_part(session.project_id, left)


def rebuild_days(project: Project, *, check_only: bool = False) -> int:
    """Adds up a project's figures from its sessions'. Returns how many rows differed."""
    with writing():
        of_sessions = SessionDay.objects.filter(session__project=project)
        named = of_sessions.annotate(
            agent=F("session__agent"),
            named=Coalesce(NullIf("model", Value("")), "session__model"),
        )
        columns = [name if name != "model" else "named" for name in _COLUMNS]
        expected = _added_up(project.pk, named.values_list(*columns).iterator())
        stored = _added_up(
            project.pk, ProjectDay.objects.filter(project=project).values_list(*_COLUMNS).iterator()
        )
        missing: Agents = {}
        for key in expected.keys() | stored.keys():
            difference = expected[key].minus(stored[key])
            if difference:
                missing[key] = difference
        if not check_only:
            add_to_days({}, missing)
    return len(missing)


def _added_up(project: UUID, rows: Iterable[tuple[Any, ...]]) -> Agents:
    total: Agents = defaultdict(lambda: NO_FIGURES)
    for row in rows:
        key = project, row[0], FiguresKey(*row[1:_FIGURES_AT])
        total[key] = total[key].plus(DayFigures(*row[_FIGURES_AT:]))
    return total
