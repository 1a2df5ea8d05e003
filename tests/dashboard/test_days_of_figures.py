"""The days that the page of a project's figures offers and shows, and the runs that are on none."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone

from dashboard.figures.project import FiguresPage, read_span
from historyapp.core.dates import UNDATED
from historyapp.models import Project, ProjectDay, Session
from historyapp.models.search_limits import SearchLimit
from historyapp.services.figures.feed import follow_changes
from historyapp.services.figures.project_figures import NO_RECORDS, RecordedDays
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text


@pytest.fixture
def counted(session: Session, settled: None) -> Session:
    follow_changes(lambda: False)
    return session


def test_all_days_begin_with_the_first_record_within_ten_years(alice: Client, counted: Session) -> None:
    today = timezone.now().date()
    day = ProjectDay.objects.filter(project=counted.project_id).earliest("day")
    first = today - timedelta(days=400)
    ProjectDay.objects.filter(pk=day.pk).update(day=first)
    page = html(alice.get("/figures?days=all&agent=demo"))
    link = f"?from={first}&amp;to={today}&amp;agent=demo"
    chosen = re.findall(r'<a class="button" href="([^"]*)"\s+aria-current="true">([^<]*)</a>', page)
    assert chosen == [(link, "All days")]
    assert f"<span>{first}</span><span>{today}</span>" in page
    assert "Table of days" in page
    ProjectDay.objects.filter(pk=day.pk).update(day=today - timedelta(days=5000))
    page = html(alice.get("/figures?days=all"))
    assert f"from={today - timedelta(days=3659)}&amp;" in page
    assert "Newest 3,660 days</a>" in page
    assert "All days" not in page


def test_all_days_of_an_empty_project_are_the_default(alice: Client, project: Project) -> None:
    assert read_span(QueryDict("days=all")) == read_span(QueryDict(""))
    assert "All days" not in html(alice.get("/figures?days=all"))


def test_undated_runs_are_counted_with_a_link_to_them(alice: Client, counted: Session) -> None:
    assert "not in the charts" not in text(alice.get("/figures"))
    for agent in ("other", "other", "demo"):
        made = create_session(counted.project, names={"agent": agent})
        Session.objects.filter(pk=made.pk).update(last_entry_at=UNDATED)
    page = html(alice.get("/figures"))
    assert "3 undated runs are not in the charts" in text(alice.get("/figures"))
    assert 'href="/?status=all&amp;date=undated"' in page
    assert "1 undated run is not in the charts" in text(alice.get("/figures?agent=demo"))
    address = "/?status=all&date=undated&agent=other"
    assert address.replace("&", "&amp;") in html(alice.get("/figures?agent=other"))
    assert "2 sessions" in text(alice.get(address))
    assert "not in the charts" not in text(alice.get("/figures?model=gpt-5"))


def test_the_runs_without_times_are_counted_within_the_time_limit(
    alice: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = list[SearchLimit]()

    def record(*arguments: object) -> RecordedDays:
        limits.extend(each for each in connection.execute_wrappers if isinstance(each, SearchLimit))
        return NO_RECORDS

    monkeypatch.setattr("dashboard.views.figures.recorded_days", record)
    assert alice.get("/figures").status_code == 200
    assert len(limits) == 1


def test_a_long_table_of_days_says_how_many_it_leaves_out(
    alice: Client, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "days with records" not in text(alice.get("/figures"))
    monkeypatch.setattr("dashboard.figures.project.MAX_ROWS", 0)
    shown = FiguresPage(counted.project_id, read_span(QueryDict("")))
    assert "The newest 0 of 1 days" in render_to_string("figures/_days.html", {"shown": shown})
