"""The changes of a session's stored figures.

A session has a row of figures for each day, model and tool, without a limit. So a change of all its rows
takes several transactions: each changes at most :data:`ROWS_AT_ONCE` rows of the session and stores in
``CountedSession.moving`` how far it got.
"""

from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from historyapp.core.day_figures import NO_FIGURES, DayFigures, FiguresKey
from historyapp.models import CountedSession, SessionDay
from historyapp.models.fields import uuid_value
from historyapp.services.figures.day_rows import AgentFigures, SessionFigures

ROWS_AT_ONCE = 500
"""The maximum number of a session's rows that one transaction renames or removes. It takes about 50 ms."""
_ROWS = (
    "SELECT * FROM historyapp_sessionday WHERE session_id = %s {condition}"
    "ORDER BY day, model, tool, has_cost, is_live {limit}"
)
_AFTER = "AND (day, model, tool, has_cost, is_live) > (%s, %s, %s, %s, %s) "


@dataclass(slots=True)
class FiguresChange:
    """The changes of figures since a session was last counted."""

    old: CountedSession | None
    """None if the session was not counted before."""
    new: CountedSession | None
    """None if the session was deleted."""
    replaces: bool = False
    """Whether the session's stored figures are deleted first."""
    own: SessionFigures = field(default_factory=lambda: defaultdict(DayFigures))
    """The changes of the session's rows."""
    agents: AgentFigures = field(default_factory=lambda: defaultdict(DayFigures))
    """The changes of the project's rows, by agent."""
    entries: int = 0
    is_complete: bool = True

    @property
    def rows(self) -> int:
        return len(self.own) + len(self.agents)

    def add(self, key: FiguresKey, figures: DayFigures) -> None:
        assert self.new is not None
        self.own[key] = self.own[key].plus(figures)
        self.add_to_agent(self.new, key, figures)

    def subtract(self, key: FiguresKey, figures: DayFigures) -> None:
        self.add(key, NO_FIGURES.minus(figures))

    def move(self, key: FiguresKey, figures: DayFigures, *, is_live: bool) -> None:
        """Moves figures from takes to the live history, or back."""
        self.subtract(key._replace(is_live=not is_live), figures)
        self.add(key._replace(is_live=is_live), figures)

    def remove_from_project(self, rows: Iterable[tuple[FiguresKey, DayFigures]]) -> None:
        """Subtracts the stored figures of the session, which are deleted, from its project."""
        assert self.old is not None
        for key, figures in rows:
            self.add_to_agent(self.old, key, NO_FIGURES.minus(figures))

    def add_to_agent(self, counted: CountedSession, key: FiguresKey, figures: DayFigures) -> None:
        agent_key = counted.project_id, counted.agent, key._replace(model=key.model or counted.model)
        self.agents[agent_key] = self.agents[agent_key].plus(figures)


def is_being_renamed(counted: CountedSession) -> bool:
    """Whether some of the session's figures count for its old names and some for its new ones."""
    return counted.moving is not None and counted.moving[0] == "rename"


def rename_part(old: CountedSession, agent: str, model: str) -> FiguresChange:
    """Moves the next stored figures to another agent and model.

    A rename that has begun is finished first, with its own names.
    """
    after: FiguresKey | None = None
    if is_being_renamed(old):
        _, agent, model, after_key = old.moving
        after = load_key(after_key)
    rows = stored_rows(old.session_id, after, ROWS_AT_ONCE + 1)
    new, renamed = copy(old), copy(old)
    renamed.agent, renamed.model = agent, model
    change = FiguresChange(old, new, is_complete=False)
    for key, figures in rows[:ROWS_AT_ONCE]:
        change.add_to_agent(old, key, NO_FIGURES.minus(figures))
        change.add_to_agent(renamed, key, figures)
    if len(rows) > ROWS_AT_ONCE:
        new.moving = ["rename", agent, model, dump_key(rows[ROWS_AT_ONCE - 1][0])]
    else:
        new.agent, new.model, new.moving = agent, model, None
    return change


def removal_part(old: CountedSession) -> FiguresChange | None:
    """Removes the next stored figures of a session that was deleted or is counted again; None if at most
    :data:`ROWS_AT_ONCE` rows are left."""
    rows = stored_rows(old.session_id, limit=ROWS_AT_ONCE + 1)
    if len(rows) <= ROWS_AT_ONCE:
        return None
    new = copy(old)
    # Version 0: a session that gets this id meanwhile is counted from its beginning.
    is_continued = old.moving is not None and old.moving[0] == "removal"
    new.version, new.moving = 0, ["removal", ROWS_AT_ONCE + (old.moving[1] if is_continued else 0)]
    change = FiguresChange(old, new, is_complete=False)
    for key, figures in rows[:ROWS_AT_ONCE]:
        change.subtract(key, figures)
    return change


def stored_rows(
    session: UUID, after: FiguresKey | None = None, limit: int | None = None
) -> list[tuple[FiguresKey, DayFigures]]:
    """A session's stored figures, ordered by their keys.

    Args:
        after: only those after this key.
    """
    statement = _ROWS.format(
        condition=_AFTER if after else "", limit="" if limit is None else f"LIMIT {int(limit)}"
    )
    # SQL, because the index finds the first row only by a comparison of all five columns.
    rows = SessionDay.objects.raw(statement, [uuid_value(session), *(after or ())])
    return [(FiguresKey(*_values(row, FiguresKey)), DayFigures(*_values(row, DayFigures))) for row in rows]


def _values(row: SessionDay, kind: type[FiguresKey] | type[DayFigures]) -> list[Any]:
    return [getattr(row, name) for name in kind._fields]


def dump_key(key: FiguresKey) -> list[Any]:
    """A key as JSON."""
    day, *rest = key
    return [day.isoformat(), *rest]


def load_key(stored: list[Any]) -> FiguresKey:
    """Reverses :func:`dump_key`."""
    day, *rest = stored
    return FiguresKey(date.fromisoformat(day), *rest)
