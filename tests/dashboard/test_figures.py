"""The page of a project's figures: a span of days, what runs now, and what failed lately."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.project_figures import _compared
from historyapp.models import Session
from historyapp.services.append import append
from historyapp.services.figures_feed import follow_changes
from historyapp.services.rewinds import Target, rewind
from tests.dashboard.pages import html, text
from tests.services.drafts import act, failed


@pytest.fixture
def counted(session: Session, settled: None) -> Session:
    follow_changes(lambda: False)
    return session


def test_the_page_shows_the_span_by_day_agent_model_and_tool(alice: Client, counted: Session) -> None:
    page = text(alice.get("/figures?days=7"))
    for shown in (
        "By agent",
        "demo",
        "By model",
        "gpt-5",
        "By tool",
        "read_file",
        "none in the 7 days before",
    ):
        assert shown in page
    assert timezone.now().date().isoformat() in page
    assert 'class="figures-bar"' in html(alice.get("/figures"))


def test_a_name_filters_the_page_and_the_filter_can_be_removed(alice: Client, counted: Session) -> None:
    page = html(alice.get("/figures?agent=nobody"))
    assert "Nothing was recorded in these days." in page
    assert "Remove the filter" in page
    assert "tool=read_file" in html(alice.get("/figures"))


def test_a_span_without_records_says_so(alice: Client, counted: Session) -> None:
    assert "Nothing was recorded in these days." in text(alice.get("/figures?from=2020-01-01&to=2020-01-02"))


def test_a_long_span_has_a_bar_for_several_days(alice: Client, counted: Session) -> None:
    first = timezone.now().date() - timedelta(days=3000)
    assert "days after it: 5 steps" in html(alice.get(f"/figures?from={first}"))


def test_a_session_at_work_is_shown_with_the_step_under_way(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash", command="make test")])
    now = text(alice.get("/figures"))
    assert "step 6 is running" in now
    assert "make test" in now
    Session.objects.update(last_entry_at=timezone.now() - timedelta(hours=1))
    assert "Nothing has been recorded in the last 15 minutes." in text(alice.get("/figures"))


def test_a_failing_step_is_shown_with_its_line_unless_it_was_rewound(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash"), failed(reason="a late fault")])
    page = html(alice.get("/figures"))
    assert "a late fault" in page
    assert f"/sessions/{counted.pk}?step=6" in page
    rewind(counted.project, counted.pk, Target(to_step=5))
    assert "a late fault" not in text(alice.get("/figures"))


def test_htmx_gets_what_runs_now_alone(alice: Client, counted: Session) -> None:
    part = html(alice.get("/figures", headers={"HX-Request": "true"}))
    assert "Running now" in part
    assert "<main" not in part


def test_a_stranger_sees_nothing_of_it(charlie: Client, counted: Session) -> None:
    page = text(charlie.get("/figures"))
    assert "Repair the totals" not in page
    assert "read_file" not in page


@pytest.mark.parametrize("query", ["days=3", "from=x", "from=2026-03-02&to=2026-03-01", "from=0001-01-01"])
def test_an_impossible_span_is_explained(alice: Client, counted: Session, query: str) -> None:
    assert alice.get(f"/figures?{query}").status_code == 422


def test_the_page_costs_a_fixed_number_of_queries(
    alice: Client, counted: Session, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(18):
        alice.get("/figures")


def test_a_trend_is_told_in_words() -> None:
    assert _compared(12, 10, 7) == "20 % more than in the 7 days before"
    assert _compared(5, 10, 1) == "50 % less than in the day before"
    assert _compared(3, 0, 7) == "none in the 7 days before"
    assert _compared(2, 2, 7) == "as in the 7 days before"
