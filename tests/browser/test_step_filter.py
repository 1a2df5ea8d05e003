"""Filtering the step list in a browser, with scripts and without."""

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.step_list import rows
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import change_session
from tests.browser.visits import page_of, record_session, sign_in
from tests.services.drafts import act, failed, ok


def steps(page: Page) -> list[str]:
    return [row.get_attribute("data-step") or "" for row in page.locator("#rows [data-step]").all()]


def filter_by_error(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    page.get_by_title("Filter steps").click()
    page.locator("select[name=status]").select_option("error")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator(".chip[aria-current]")).to_contain_text("errors")


@pytest.mark.thorough
def test_without_scripts_the_form_filters_and_keeps_the_step(plain: Page, server: str) -> None:
    session = record_session(sign_in(plain.context, server), 12)
    filter_by_error(plain, session)
    expect(plain.locator("#step h2").first).to_have_text("Step 5")
    assert steps(plain) == ["3", "6", "9", "12"]
    plain.locator("#rows [data-step='3']").click()
    expect(plain.locator("#step h2").first).to_have_text("Step 3")
    assert steps(plain) == ["3", "6", "9", "12"]
    plain.get_by_role("link", name="all 12").click()
    expect(plain.locator("#rows [data-step]")).to_have_count(12)
    expect(plain.locator("#step h2").first).to_have_text("Step 3")


def test_moving_keeps_the_filter_in_the_address_and_a_live_list_adds_matching_steps(
    page: Page, project: Project
) -> None:
    session = record_session(project, 6)
    append(project, session.pk, [act("bash", command="make"), ok(outputs="make: *** [all] Error 2")])
    change_session(project, session.pk, {"status": "live"})
    filter_by_error(page, session)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step h2").first).to_have_text("Step 6")
    expect(page).to_have_url(re.compile(r"step=6&status=error$"))
    assert steps(page) == ["3", "6"]
    append(project, session.pk, [act("ls"), failed(), act("ls")])
    expect(page.locator("#rows [data-step='8']")).to_be_visible()
    assert steps(page) == ["3", "6", "8"]
    expect(page.get_by_role("link", name="all 9")).to_have_attribute("href", re.compile(r"step=6\b"))
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step h2").first).to_have_text("Step 7")
    page.locator(".facts a", has_text="likely failed").click()
    expect(page.locator("#rows [data-step]")).to_have_count(1)
    expect(page.locator("#step h2").first).to_have_text("Step 7")


def test_a_line_says_whether_the_list_has_the_step_after_each_move(
    page: Page, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "AROUND", 1)
    page.goto(page_of(record_session(project, 12), "?step=5&status=error"))
    line = page.get_by_text("This step is not among these matches.")
    expect(line).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(line).to_be_hidden()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(line).to_be_visible()
    page.set_viewport_size({"width": 1_280, "height": 500})
    page.locator("[data-steps-pane]").evaluate("pane => (pane.scrollTop = pane.scrollHeight)")
    expect(line).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Later matches").click()
    expect(page.locator("#rows [data-step='9'][aria-current]")).to_be_visible()
    expect(line).to_be_hidden()
