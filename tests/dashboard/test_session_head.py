"""The head of a session's pages: where its figures come from, and which page is open."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.location import newest_step
from dashboard.rendering.sources import money_source
from dashboard.session_head import head_figures
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import failed, ok, tool_calls


def answered(project: Project, session: Session, metadata: dict[str, Any]) -> Session:
    append(project, session.pk, [EntryDraft(ModelOutput(text="Done."), metadata=metadata)])
    return Session.objects.get(pk=session.pk)


@pytest.mark.parametrize(
    ("name", "page"), [("session", "Run"), ("ledger", "Cost"), ("session-settings", "Settings")]
)
def test_the_open_page_is_marked(alice: Client, session: Session, name: str, page: str) -> None:
    shown = html(alice.get(reverse(name, args=[session.pk])))
    tabs = shown[shown.index('class="tabs"') :]
    assert re.findall(r'aria-current="page">(\w+)<', tabs) == [page]


def test_a_page_of_settings_has_no_second_primary_button(alice: Client, session: Session) -> None:
    page = html(alice.get(reverse("session-settings", args=[session.pk])))
    assert page.count("button primary") == 2  # of the title's menu, and of the form
    assert "Continue from here" not in page


def test_the_cost_tab_names_the_step_from_which_to_continue(alice: Client, session: Session) -> None:
    page = text(alice.get(reverse("ledger", args=[session.pk]) + "?step=3"))
    assert "Continue from step 3 …" in page
    assert "Continue from here …" in text(alice.get(f"/sessions/{session.pk}?step=3"))


def test_pages_without_a_step_continue_and_fork_after_the_newest_step(
    alice: Client, session: Session
) -> None:
    page = html(alice.get(reverse("overview", args=[session.pk])))
    assert f'href="{reverse("continue", args=[session.pk])}?step=-1" data-dialog>Continue…</a>' in page
    assert '<input type="hidden" name="step" value="5">' in page


def test_without_reported_usage_tokens_are_estimated_and_money_is_unknown(session: Session) -> None:
    figures = head_figures(newest_step(session))
    assert (figures.tokens, figures.tokens_label, figures.money.micros) == (session.tokens, "tokens", 0)
    assert figures.tokens_source.startswith("Estimated")


def test_reported_tokens_come_first_with_the_share_of_the_cache(project: Project, session: Session) -> None:
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 3000, "output_tokens": 50}
    figures = head_figures(
        newest_step(answered(project, session, {"usage": usage, "model": "claude-opus-4"}))
    )
    assert (figures.tokens, figures.tokens_label) == (4000, "tokens in, 75 % from cache")
    assert figures.money.micros > 0
    assert money_source(figures.money).startswith("Priced with the price list of ")


def test_a_reported_cost_is_not_priced_again(project: Project, session: Session) -> None:
    session = answered(project, session, {"usage": {"input_tokens": 10, "output_tokens": 5}, "cost": 0.25})
    figures = head_figures(newest_step(session))
    assert (figures.money.micros, money_source(figures.money)) == (250_000, "As reported.")


def test_the_breadcrumbs_link_back_to_the_sessions(alice: Client, session: Session) -> None:
    page = html(alice.get(reverse("session", args=[session.pk])))
    path = page[page.index('aria-label="Path"') : page.index('aria-label="Main"')]
    assert re.findall('href="([^"]+)"', path) == ["/", reverse("session", args=[session.pk]) + "?step=1"]
    assert "Alice&#x27;s project" in path


def test_the_header_and_the_list_say_that_model_calls_name_other_models(
    alice: Client, project: Project
) -> None:
    """A run with 75 of 122 steps by Sonnet was shown as one of Opus."""
    session = create_session(project, names={"model": "claude-opus-4-5"})
    usage = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    pages = ("/", reverse("session", args=[session.pk]))
    for model, are_named in (("claude-opus-4-5-20251101", False), ("claude-sonnet-4-5", True)):
        answered(project, session, {**usage, "model": model})
        for page in pages:
            response = alice.get(page)
            assert ("+1 model" in text(response)) is are_named
            assert ('title="Some model calls name claude-sonnet-4-5."' in html(response)) is are_named


def test_the_header_of_a_fork_says_its_own_cost(alice: Client, project: Project, session: Session) -> None:
    usage = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    session = answered(project, session, {**usage, "cost": 0.25})
    other = fork(project, session.pk, at_step=session.steps)
    page = reverse("session", args=[other.pk])
    assert "$0.25 before the fork" in text(alice.get(page))
    answered(project, other, {**usage, "cost": 0.5})
    assert "$0.75 · $0.50 since the fork" in text(alice.get(page))
    location = newest_step(Session.objects.get(pk=other.pk))
    with CaptureQueriesContext(connection) as queries:
        head_figures(location)
    assert not len(queries), "the totals of both are in the session's row"


def test_a_fork_that_is_rewound_into_what_it_shares_has_no_negative_cost(
    alice: Client, project: Project, session: Session
) -> None:
    for _ in range(2):
        session = answered(
            project, session, {"usage": {"input_tokens": 10, "output_tokens": 5}, "cost": 0.25}
        )
    other = fork(project, session.pk, at_step=session.steps)
    rewind(project, other.pk, Target(to_step=session.steps - 1))
    page = text(alice.get(reverse("session", args=[other.pk])))
    assert "$0.25 before the fork" in page


def test_errors_in_the_head_are_steps_and_failed_calls_are_counted_below_the_tools(
    alice: Client, project: Project
) -> None:
    session = create_session(project, names={"model": "gpt-5"})
    usage = {"input_tokens": 900, "output_tokens": 9}
    first = EntryDraft(tool_calls("a", "b").body, metadata={"usage": usage})
    append(project, session.pk, [first, failed("a"), failed("b"), tool_calls("c"), ok("c")])
    page = alice.get(reverse("session", args=[session.pk]))
    assert 'title="1 step with a failed call"' in html(page)
    both = "2 calls failed in 1 step: the errors in the header are steps."
    for name in ("overview", "ledger"):
        assert both in text(alice.get(reverse(name, args=[session.pk])))
    rewind(project, session.pk, Target(to_position=0))
    append(project, session.pk, [first, failed("a"), ok("b")])
    for name in ("overview", "ledger"):
        assert "calls failed in" not in text(alice.get(reverse(name, args=[session.pk])))
