"""The window of the minimap is moved and resized by pointer and keys, without loading the page again."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from tests.browser.visits import page_of, step_in_view
from tests.dashboard.long_sessions import long_session
from tests.services.drafts import act, ok


@pytest.fixture
def session(project: Project) -> Session:
    session = long_session(project, 499)
    append(project, session.pk, [act("rare"), ok()])
    return session


def drag(page: Page, start: float, end: float) -> None:
    """From one part of the minimap's width to another, with the mouse."""
    box = page.locator("[data-map]").bounding_box()
    assert box
    x, y, width = box["x"], box["y"] + box["height"] / 2, box["width"]
    page.mouse.move(x + start * width, y)
    page.mouse.down()
    page.mouse.move(x + (start + end) / 2 * width, y)
    page.mouse.move(x + end * width, y)
    page.mouse.up()


def test_the_window_is_resized_and_moved_by_pointer_and_arrows_and_the_playhead_follows(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=50"))
    page.evaluate("window.isTheSamePage = true")
    drag(page, 1.0, 0.2)
    expect(page).to_have_url(re.compile(r"step=50&zoom=1-100$"))
    expect(page.locator("[data-bars] > a")).to_have_count(100)
    drag(page, 0.1, 0.5)
    expect(page).to_have_url(re.compile(r"step=201&zoom=201-300$"))
    expect(page.locator("#step h2").first).to_have_text("Step 201")
    expect_choices_and_marks_in_place(page)
    page.get_by_role("slider", name="Part that the timeline shows").focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile(r"step=100&colour=outcome&zoom=1-100$"))
    expect(page.locator("#step h2").first).to_have_text("Step 100")
    last = page.get_by_role("slider", name="Last step of the part")
    last.focus()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(r"step=100&colour=outcome$"))  # the whole run has no zoom in it
    expect(last).to_be_focused()
    expect(last).to_have_attribute("aria-valuenow", "500")
    assert step_in_view(page) == 100
    page.keyboard.press("G")
    expect(page).to_have_url(re.compile(r"step=500&colour=outcome$"))
    expect(page.locator("[data-map-playhead]")).to_have_attribute("x", "99.9%")
    assert page.evaluate("window.isTheSamePage")


def test_the_last_of_several_moves_wins_whatever_is_drawn_later(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=50&zoom=1-100"))
    held: list[Route] = []
    page.route("**/timeline?**", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 500")
    drag(page, 0.1, 0.5)
    expect(page.locator("#step h2").first).to_have_text("Step 300")
    page.keyboard.press("g")
    held[-1].continue_()
    expect(page.locator("#step h2").first).to_have_text("Step 1")
    expect(page).to_have_url(re.compile(r"step=1&zoom=1-100$"))
    expect(page.get_by_role("slider", name="First step of the part")).to_have_attribute("aria-valuenow", "1")


def expect_choices_and_marks_in_place(page: Page) -> None:
    page.get_by_text("Legend", exact=True).click()
    page.get_by_role("group", name="Colour by").get_by_role("link", name="outcome").click()
    expect(page).to_have_url(re.compile(r"step=201&colour=outcome&zoom=201-300$"))
    expect(page.locator("#timeline-colours")).to_contain_text("success")
    page.get_by_role("searchbox", name="Find in this session").fill("rare")
    page.keyboard.press("Enter")
    lines = page.locator("[data-map-hits]")
    expect(lines).to_have_attribute("d", "M996 7v-7h4v7z")
    expect(page.locator("[data-map-lane]")).to_be_visible()
    page.locator("[data-find-clear]").click()
    expect(lines).to_have_attribute("d", "")
    expect(page.locator("[data-map-lane]")).to_be_hidden()
