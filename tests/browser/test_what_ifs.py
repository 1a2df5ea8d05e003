"""A What if is saved from the panel, stays while the playhead moves, and becomes the session's settings."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session, WhatIf
from tests.browser.visits import page_of, panel, record_session


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 6)


def save(page: Page, name: str) -> None:
    panel(page).get_by_text("Save as…").click()
    panel(page).get_by_role("textbox", name="Name").fill(name)
    panel(page).get_by_role("button", name="Save", exact=True).click()


def test_what_the_panel_shows_is_saved_with_the_step_under_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if"))
    panel(page).get_by_label("Policy").select_option("masked")
    expect(panel(page).locator(".context-head .facts")).to_contain_text("masked")
    page.get_by_role("link", name="Next step").click()
    expect(panel(page).locator(".context-moment")).to_have_text("Context after step 3")
    save(page, "small")
    expect(page).to_have_url(re.compile(r"step=3&mode=what_if&policy=masked"))
    assert WhatIf.objects.get().policy == "masked"


def test_a_saved_one_is_chosen_from_the_menu_and_made_the_settings(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if&policy=masked"))
    expect(panel(page).locator(".context-head .facts")).to_contain_text("masked")
    save(page, "small")
    expect(panel(page).get_by_text("Saved", exact=True)).to_be_visible()
    page.goto(page_of(session, "?step=4&mode=what_if"))
    panel(page).get_by_text("Saved", exact=True).click()
    panel(page).get_by_role("link", name="small").click()
    expect(panel(page).locator(".context-head .facts")).to_contain_text("masked")
    panel(page).get_by_text("Saved", exact=True).click()
    panel(page).get_by_role("button", name="Use small for this session").click()
    expect(page).to_have_url(re.compile(r"step=4&mode=what_if$"))
    expect(panel(page).locator(".context-head .facts")).to_contain_text("masked")
    session.refresh_from_db()
    assert session.settings == {"policy": "masked"}


def test_the_link_to_a_step_is_copied(page: Page, session: Session, server: str) -> None:
    page.goto(page_of(session, "?step=2"))
    page.get_by_role("link", name="Next step").click()
    expect(page.get_by_role("heading", name="Step 3")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_title("IDs and link").click()
    page.get_by_title("Copy the link to this step").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{server}{page_of(session, '?step=3')}"
