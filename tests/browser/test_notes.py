"""Bookmarks and notes, as people make them."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Session, StepNote
from tests.browser.visits import page_of, record_session, sign_in

ABORTED = ("htmx:afterRequest,", "htmx:sendAbort,")
"""What htmx writes about a request whose answer a later key made superfluous."""


@pytest.fixture
def session(page: Page, server: str) -> Session:
    return record_session(sign_in(page.context, server))


def test_a_key_bookmarks_a_step_and_its_note_stays_when_the_playhead_comes_back(
    page: Page, session: Session
) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(page_of(session, "?step=3"))
    assert _is_filled(page) is False
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".step-head h2")).to_contain_text("2")
    page.keyboard.press("b")
    expect(page.locator("#rows .bookmark-2")).to_be_visible()
    expect(page.locator("#note")).to_contain_text("Bookmarked by alice")
    expect(page.locator("#note [data-note-mark]")).to_have_count(0)
    assert _is_filled(page) is True
    page.keyboard.press("b")
    expect(page.locator("#rows .bookmark-2")).to_have_count(0)
    expect(page.locator("#note")).not_to_contain_text("Bookmarked")
    page.get_by_title("Note on this step").click()
    expect(page.get_by_label("Note on this step")).to_be_focused()  # otherwise letters would be shortcuts
    page.keyboard.insert_text("Why b\nhere?")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".note-text")).to_have_text("Why b\nhere?")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".step-head h2")).to_contain_text("3")
    expect(page.locator(".note-text")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".note-text")).to_have_text("Why b\nhere?")
    expect(page.locator("#rows .bookmark-2")).to_have_attribute("title", "Why b\nhere?")
    assert StepNote.objects.get().text == "Why b\nhere?"
    assert [complaint for complaint in complaints if not complaint.startswith(ABORTED)] == []


def _is_filled(page: Page) -> bool:
    """Whether the first icon of the step's note is the one of a step that has a bookmark."""
    return (page.locator("#note use").first.get_attribute("href") or "").endswith("#bookmarked")


def test_a_step_that_a_filtered_list_does_not_show_is_bookmarked_without_an_error(
    page: Page, session: Session
) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(page_of(session, "?step=2&status=error"))
    page.keyboard.press("b")
    expect(page.locator("#note")).to_contain_text("Bookmarked by alice")
    expect(page.locator("#rows .bookmark")).to_have_count(0)
    assert complaints == []


def test_letters_go_into_the_form_after_tags_are_edited(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=1"))
    page.get_by_title("Edit tags, note and score").click()
    expect(page.get_by_label("Add tags")).to_be_focused()
    page.keyboard.type("gently")
    expect(page.get_by_label("Add tags")).to_have_value("gently")
    expect(page.locator(".step-head h2")).to_contain_text("1")


@pytest.mark.thorough
def test_without_scripts_a_note_is_a_form(plain: Page, server: str) -> None:
    session = record_session(sign_in(plain.context, server))
    plain.goto(page_of(session, "?step=4"))
    plain.get_by_role("button", name="Bookmark").click()
    expect(plain.locator("#note")).to_contain_text("Bookmarked by alice")
    expect(plain).to_have_url(f"{server}{page_of(session, '?step=4')}")
