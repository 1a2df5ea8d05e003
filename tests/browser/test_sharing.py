"""Sharing from the session page, as a person does it, with and without scripts."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, sign_in

LINK = re.compile(r"/s/[A-Za-z0-9_=-]{64}/$")


def open_as_stranger(page: Page, address: str, session: Session) -> None:
    """Opens a link without an account: the page has the steps and nothing that changes them."""
    page.goto(address)
    expect(page).to_have_url(re.compile(f"{session.pk}"))
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    expect(page.locator("#rows [data-step='5']")).to_have_count(0)
    expect(page.locator("form[method=post]")).to_have_count(0)


def test_an_earlier_position_is_shared_from_the_dialog_and_opened_by_a_stranger(
    page: Page, project: Project
) -> None:
    session = record_session(project)
    page.goto(page_of(session))
    page.locator("#rows [data-step='4']").click()
    page.locator("[data-at='4']").wait_for()
    page.get_by_role("link", name="Share…").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("The session as it was at the end of step 4").check()
    dialog.get_by_role("button", name="Create a link").click()
    address = page.locator(".new-link code")
    expect(address).to_have_text(LINK)
    expect(page.get_by_role("button", name="Revoke")).to_be_visible()
    page.context.clear_cookies()
    open_as_stranger(page, address.inner_text(), session)


@pytest.mark.thorough
def test_sharing_needs_no_scripts(plain: Page, browser: Browser, server: str) -> None:
    session = record_session(sign_in(plain.context, server))
    plain.goto(page_of(session, "?step=4"))
    plain.get_by_role("link", name="Share…").click()
    plain.get_by_label("The session as it was at the end of step 4").check()
    plain.get_by_role("button", name="Create a link").click()
    with browser.new_context() as context, context.new_page() as stranger:
        open_as_stranger(stranger, plain.locator(".new-link code").inner_text(), session)
    plain.goto("/project")
    plain.get_by_role("button", name="Revoke").click()
    expect(plain.get_by_role("button", name="Revoke")).to_have_count(0)
