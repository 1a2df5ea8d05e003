"""Pages of evaluations: starting one from the list, its progress, its results, and using them."""

import re
from typing import Any

import pytest
from django.test import Client

from dashboard.evaluation_rows import interval_picture
from historyapp.core.evaluation.intervals import Interval
from historyapp.evaluators import work_on_evaluations
from historyapp.models import Evaluation, Project, Session, WhatIf
from tests.dashboard.pages import html, text
from tests.services.evaluations.lookups import record_lookups


@pytest.fixture
def sessions(project: Project) -> list[Session]:
    return [record_lookups(project), record_lookups(project, 8)]


def post(client: Client, sessions: list[Session], **fields: Any) -> Any:
    return client.post("/evaluations/new", {"session": [session.pk for session in sessions], **fields})


def start(client: Client, sessions: list[Session]) -> str:
    """Starts an evaluation and returns its address."""
    options = {"start": "1", "budgets": "300, 2000", "policy": ["live", "budgeted"]}
    return str(post(client, sessions, **options).headers["Location"])


def carry_out(page: str) -> None:
    work_on_evaluations()


def test_the_list_links_to_the_form(alice: Client, sessions: list[Session]) -> None:
    assert 'formaction="/evaluations/new"' in html(alice.get("/"))
    form = html(post(alice, sessions))
    assert "2 sessions" in form
    assert form.count('name="policy"') == form.count(" checked>") == 5
    assert 'value="2000, 8000"' in form
    words = " ".join(re.sub("<[^>]*>", " ", form).split())
    assert "masked like live, with one line in place of each older result" in words
    assert not Evaluation.objects.exists()


def test_the_page_shows_progress_and_then_the_results(alice: Client, sessions: list[Session]) -> None:
    page = start(alice, sessions)
    shown = html(alice.get(page))
    assert f'hx-get="{page}" hx-trigger="every 2s"' in shown
    assert '<meta http-equiv="refresh"' in shown
    assert "0 of 2 sessions measured" in text(alice.get(page))
    carry_out(page)
    fragment = html(alice.get(page, headers={"hx-request": "true"}))
    assert "every 2s" not in fragment
    assert "<h1>" not in fragment
    shown = text(alice.get(page))
    assert "2 of 2 sessions measured." in shown
    assert "Recommended: " in shown
    assert "Only 2 sessions were measured." in shown
    assert "Limits of this evaluation" in shown
    assert "100.0 % (100–100)" in shown
    assert "With live, 300 tokens." in text(alice.get(f"{page}?choice=live 300"))
    assert f'href="{page}"' in html(alice.get("/evaluations"))


def test_a_running_evaluation_is_cancelled(alice: Client, bob: Client, sessions: list[Session]) -> None:
    page = start(alice, sessions)
    assert "Cancelled." in text(bob.post(f"{page}/cancel", headers={"hx-request": "true"}))
    carry_out(page)
    assert "Nothing was measured." in text(alice.get(page))
    assert alice.post(f"{page}/cancel").status_code == 409


def test_the_recommendation_becomes_a_what_if_or_the_settings(alice: Client, sessions: list[Session]) -> None:
    page = start(alice, sessions[:1])
    carry_out(page)
    assert "Use for the session" in text(alice.get(page))
    saved = alice.post(f"{page}/use", {"choice": "live 2000", "name": "all of it"})
    assert "Saved as a What if" in text(saved)
    what_if = WhatIf.objects.get()
    assert (what_if.name, what_if.policy, what_if.max_tokens) == ("all of it", "live", 2000)
    used = {"choice": "live 2000", "name": "", "session": sessions[0].pk}
    assert alice.post(f"{page}/use", used).headers["Location"] == f"/sessions/{sessions[0].pk}/settings"
    settings = Session.objects.get(pk=sessions[0].pk).settings
    assert (settings["policy"], settings["max_tokens"]) == ("live", 2000)
    assert alice.post(f"{page}/use", {"choice": "live 1"}).status_code == 422


def test_invalid_forms_are_shown_again_with_the_reason(alice: Client, sessions: list[Session]) -> None:
    for wrong, reason in (
        ({"budgets": "many", "policy": "live"}, "Enter budgets as whole numbers"),
        ({"budgets": "1", "policy": "live"}, "A budget must be from 200"),
        ({"budgets": "2000"}, "Choose at least one policy."),
        ({"budgets": "2000", "policy": "best"}, "There is no policy"),
    ):
        refused = post(alice, sessions, start="1", model="mine", **wrong)
        assert (refused.status_code, reason in text(refused)) == (422, True)
        assert 'value="mine"' in html(refused)
    assert "No session is chosen" in text(post(alice, []))
    assert not Evaluation.objects.exists()


def test_strangers_get_404(alice: Client, charlie: Client, sessions: list[Session]) -> None:
    page = start(alice, sessions)
    assert "lookups" not in text(post(charlie, sessions))
    assert "The project has no session" in text(
        post(charlie, sessions, start="1", budgets="2000", policy="live")
    )
    assert [charlie.get(page).status_code, charlie.post(f"{page}/cancel").status_code] == [404, 404]
    assert charlie.post(f"{page}/use", {"choice": "live 2000"}).status_code == 404
    assert "No evaluations yet" in text(charlie.get("/evaluations"))


def test_intervals_are_drawn_between_0_and_100_per_cent() -> None:
    picture = interval_picture(Interval(0.5, 0.25, 1.0), Interval(0.0, 0.0, 0.1))
    assert 'x1="25.00%" x2="100.00%"' in picture
    assert 'cx="50.00%"' in picture
