"""A What if is saved from the panel, stays while the playhead moves, and becomes the session's settings."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session, WhatIf
from tests.browser.visits import page_of, panel, record_session


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 6)


def test_a_what_if_is_saved_chosen_from_the_menu_and_made_the_settings(
    page: Page, session: Session, server: str
) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if&policy=masked"))
    shown = panel(page).locator(".context-head .facts")
    page.get_by_role("link", name="Next step").click()
    expect(panel(page).locator(".context-moment")).to_contain_text("After step 3")
    expect(shown).to_contain_text("masked")
    panel(page).get_by_text("Save as…").click()
    expect(panel(page).get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("small")  # these letters are shortcuts outside of the field
    panel(page).get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile(r"step=3&mode=what_if&policy=masked"))
    assert WhatIf.objects.get().policy == "masked"
    panel(page).get_by_text("Saved", exact=True).click()
    expect(panel(page).get_by_role("link", name="small")).to_be_visible()
    panel(page).get_by_role("button", name="Use small for this session").click()
    expect(page).to_have_url(re.compile(r"step=3&mode=what_if$"))
    expect(shown).to_contain_text("masked")
    session.refresh_from_db()
    assert session.settings == {"policy": "masked"}
    expect_the_link_to_be_copied(page, server + page_of(session, "?step=3"))


def expect_the_link_to_be_copied(page: Page, link: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_title("IDs and link").click()
    page.get_by_title("Copy the link to this step").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == link
