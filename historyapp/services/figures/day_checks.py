"""Counts figures by day again and compares them with the stored ones, for ``rebuild-projections``."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import F, Value
from django.db.models.functions import Coalesce, NullIf

from historyapp.core.day_figures import NO_FIGURES, DayFigures, FiguresKey
from historyapp.models import CountedSession, Project, ProjectDay, Session, SessionDay
from historyapp.services.figures.day_changes import stored_rows
from historyapp.services.figures.day_figures import count_part
from historyapp.services.figures.day_rows import AgentFigures, add_to_days
from historyapp.services.transactions import writing

_COLUMNS = ("agent", *FiguresKey._fields, *DayFigures._fields)
_FIRST_FIGURE = 1 + len(FiguresKey._fields)


def recount_days(session: Session) -> list[str]:
    """Counts a session's figures from its beginning. Returns the differences from the stored ones, in
    words."""
    counted = CountedSession.objects.filter(pk=session.pk)
    if not counted.exists():
        return []  # the session has not been counted yet
    _count(session.project_id, session.pk)
    before = set(stored_rows(session.pk))
    counted.update(version=0)
    _count(session.project_id, session.pk)
    return [] if set(stored_rows(session.pk)) == before else ["figures by day differed"]


def _count(project: UUID, session: UUID) -> None:
    ids = [session]
    while ids:
        ids = count_part(project, ids)


def rebuild_days(project: Project, *, check_only: bool = False) -> int:
    """Adds up the figures of a project's sessions. Returns how many rows of the project differed."""
    with writing():
        # Figures of a session that is being renamed count for two agents.
        for id in CountedSession.objects.filter(project=project, moving__isnull=False).values_list(
            "pk", flat=True
        ):
            _count(project.pk, id)
        session_rows = SessionDay.objects.filter(session__project=project).annotate(
            agent=F("session__agent"),
            used_model=Coalesce(NullIf("model", Value("")), "session__model"),
        )
        columns = [name if name != "model" else "used_model" for name in _COLUMNS]
        expected = _added_up(project.pk, session_rows.values_list(*columns).iterator())
        stored = _added_up(
            project.pk, ProjectDay.objects.filter(project=project).values_list(*_COLUMNS).iterator()
        )
        differences: AgentFigures = {}
        for key in expected.keys() | stored.keys():
            difference = expected[key].minus(stored[key])
            if difference:
                differences[key] = difference
        if not check_only:
            add_to_days({}, differences)
    return len(differences)


def _added_up(project: UUID, rows: Iterable[tuple[Any, ...]]) -> AgentFigures:
    total: AgentFigures = defaultdict(lambda: NO_FIGURES)
    for row in rows:
        key = project, row[0], FiguresKey(*row[1:_FIRST_FIGURE])
        total[key] = total[key].plus(DayFigures(*row[_FIRST_FIGURE:]))
    return total
