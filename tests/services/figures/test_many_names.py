"""The figures of a project with many agents, models or tools, of which only the first are listed."""

from datetime import date
from random import Random
from typing import Any

import pytest

from historyapp.core.day_figures import DayFigures
from historyapp.models import Project, ProjectDay
from historyapp.services.figures import project_figures
from historyapp.services.figures.group_figures import MOST_STEPS, ORDERS, GroupFigures, GroupOrder
from historyapp.services.figures.project_figures import (
    FiguresQuery,
    Grouping,
    grouped,
    grouped_by_names,
    total_in,
)

DAY = date(2026, 3, 2)
QUERY = FiguresQuery(DAY, DAY)
MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-4-5", "our-model", "")


@pytest.fixture
def rows(project: Project) -> list[ProjectDay]:
    """Figures of 40 tools, some of which called no model, or models of unknown price, or did nothing."""
    random = Random(5)
    rows = []
    for tool in range(40):
        for model in MODELS[: tool % 6]:
            figures = {name: random.randrange(0, 30) for name in DayFigures._fields}
            figures["model_calls"] *= tool % 4 > 0
            names = {"agent": f"agent {tool % 7}", "model": model, "tool": f"tool {tool:02}"}
            is_idle = tool % 9 == 0
            rows.append(
                ProjectDay(
                    project=project,
                    day=DAY,
                    has_cost=tool % 5 == 0,
                    is_live=True,
                    **names,
                    **({} if is_idle else figures),
                )
            )
    return ProjectDay.objects.bulk_create(rows)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("is_descending", [True, False])
def test_the_first_names_of_any_order_are_listed(
    rows: list[ProjectDay], monkeypatch: pytest.MonkeyPatch, project: Project, name: str, is_descending: bool
) -> None:
    order = GroupOrder(name, is_descending)
    every = grouped(project.pk, QUERY, "tool", order)
    monkeypatch.setattr(project_figures, "MAX_GROUPS", 11)
    first = grouped(project.pk, QUERY, "tool", order)
    assert list(first.listed.items()) == list(every.listed.items())[:11]
    assert first.names == every.names == 33


def test_figures_of_many_names_are_read_for_the_listed_names_only(
    rows: list[ProjectDay], monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    read: list[str] = []
    monkeypatch.setattr(GroupFigures, "add", lambda _, model, **__: read.append(model))
    monkeypatch.setattr(project_figures, "MAX_GROUPS", 3)
    monkeypatch.setattr(project_figures, "MAX_KEYS", 10)
    grouped_by_names(project.pk, QUERY)
    assert len(read) <= 3 * 3 * len(MODELS)


def test_the_tables_of_few_and_of_many_names_are_the_same(
    rows: list[ProjectDay], monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    few = grouped_by_names(project.pk, QUERY, GroupOrder("sessions"))
    monkeypatch.setattr(project_figures, "MAX_KEYS", 10)
    assert grouped_by_names(project.pk, QUERY, GroupOrder("sessions")) == few
    assert few["tool"] == grouped(project.pk, QUERY, "tool", MOST_STEPS)


@pytest.mark.parametrize("by", ["day", "agent", "tool"])
def test_with_many_models_the_totals_count_all_and_name_the_most_called_ones(
    rows: list[ProjectDay], monkeypatch: pytest.MonkeyPatch, project: Project, by: Grouping
) -> None:
    def steps() -> tuple[Any, ...]:
        listed = grouped(project.pk, QUERY, by).listed
        figures = {name: group.figures for name, group in listed.items()}
        return total_in(project.pk, QUERY).figures, figures

    exact = steps()
    monkeypatch.setattr(project_figures, "MAX_ROWS", 4)
    monkeypatch.setattr(project_figures, "MIN_MODELS", 1)
    assert steps() == exact
    assert total_in(project.pk, QUERY).unpriced == {""}
