"""The figures of a project with many agents, models or tools, of which only the first are listed."""

from datetime import date, timedelta
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
    assert first.item_count == every.item_count == 33


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


@pytest.fixture
def days(project: Project) -> list[ProjectDay]:
    """Three days with six models, of which four have a known price or a reported cost."""
    random, rows = Random(6), list[ProjectDay]()
    models = ("gpt-5", "gpt-5-2025-08-07", "claude-opus-4-5", "our-model", "their-model", "our-model 2")
    for number in range(3 * len(models)):
        day, model = DAY + timedelta(number % 3), models[number // 3]
        figures = {name: random.randrange(1_000, 9_000) for name in DayFigures._fields}
        names = {"agent": f"agent {number % 2}", "model": model, "tool": f"tool {number % 4}"}
        has_cost = model == "our-model 2"
        row = ProjectDay(project=project, day=day, has_cost=has_cost, is_live=True, **names, **figures)
        row.cost *= has_cost
        rows.append(row)
    return ProjectDay.objects.bulk_create(rows)


@pytest.mark.parametrize("by", ["day", "agent", "tool"])
def test_with_many_models_all_figures_and_costs_are_the_same_and_the_most_called_ones_named(
    days: list[ProjectDay], monkeypatch: pytest.MonkeyPatch, project: Project, by: Grouping
) -> None:
    """With more sums than could be read, the days lost half of their cost."""
    query = FiguresQuery(DAY, DAY + timedelta(2))

    def read() -> tuple[list[Any], list[int], set[str]]:
        listed = grouped(project.pk, query, by).listed
        groups = [*listed.values(), total_in(project.pk, query)]
        figures = [*listed, *((group.figures, group.unpriced_tokens) for group in groups)]
        return figures, [group.micros for group in groups], groups[-1].unpriced

    figures, micros, unpriced = read()
    assert unpriced == {"our-model", "their-model"}
    monkeypatch.setattr(project_figures, "MAX_ROWS", 4)
    monkeypatch.setattr(project_figures, "MAX_UNPRICED", 1)
    figures_of_many, micros_of_many, unpriced_of_many = read()
    assert figures_of_many == figures
    assert micros_of_many == [pytest.approx(cost, abs=len(days)) for cost in micros]
    assert unpriced_of_many in ({"our-model", ""}, {"their-model", ""})
