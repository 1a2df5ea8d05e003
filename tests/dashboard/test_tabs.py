"""The tabs of a session's page: each registered tab is on the page, private, and of constant cost."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse

from dashboard.tabs import TABS
from dashboard.tabs.base import Tab, Table
from historyapp.models import Project, Session
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text

each = pytest.mark.parametrize("tab", TABS.values(), ids=TABS)


def address(tab: Tab, session: Session, query: str = "") -> str:
    return reverse(tab.name, args=[session.pk]) + query


@each
def test_the_name_of_a_tab_is_unique(tab: Tab, session: Session) -> None:
    assert resolve(address(tab, session)).kwargs["name"] == tab.name


@each
def test_a_tab_is_on_the_session_page_and_is_loaded_when_it_is_opened(
    alice: Client, session: Session, tab: Tab
) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=3"))
    assert f'hx-get="{address(tab, session)}?step=3" hx-trigger="toggle once"' in page
    assert f"<summary>{tab.title}</summary>" in page


@each
def test_htmx_gets_a_fragment_and_other_clients_get_a_page(alice: Client, session: Session, tab: Tab) -> None:
    part = fragment(alice, address(tab, session, "?step=3"))
    assert part.status_code == 200
    assert "<html" not in html(part)
    assert text(part) in text(alice.get(address(tab, session, "?step=3")))


@each
def test_a_stranger_gets_404(charlie: Client, session: Session, tab: Tab) -> None:
    assert charlie.get(address(tab, session)).status_code == 404


@each
def test_a_tab_of_a_session_without_steps_is_not_empty(alice: Client, project: Project, tab: Tab) -> None:
    assert text(fragment(alice, address(tab, create_session(project))))


@each
@pytest.mark.parametrize("step", [60, -1])
def test_a_long_session_issues_the_queries_of_a_short_one(
    alice: Client, project: Project, tab: Tab, step: int
) -> None:
    counts = list(queries(alice, project, tab, step))
    assert counts[0] == counts[1]


def queries(client: Client, project: Project, tab: Tab, step: int) -> Iterator[int]:
    for steps in (200, 5_000):
        path = address(tab, long_session(project, steps), f"?step={step}")
        with CaptureQueriesContext(connection) as captured:
            assert fragment(client, path).status_code == 200
        yield len(captured)


def test_a_table_shows_numbers_as_figures_and_hostile_text_as_text(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(("Tool", "Calls"), [("<script>alert(1)</script>", 12_345)], "None.")
    shown = Tab("ledger", "Tools", lambda location: {"table": table})
    monkeypatch.setitem(TABS, "ledger", shown)
    page = html(fragment(alice, address(shown, session)))
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in page
    assert '<td class="number">12,345</td>' in page
    monkeypatch.setitem(
        TABS, "ledger", Tab("ledger", "Tools", lambda location: {"table": Table((), [], "No.")})
    )
    assert text(fragment(alice, address(shown, session))) == "No."
