"""The window of the minimap is moved and resized by pointer and keys, without loading the page again."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, step_in_view
from tests.dashboard.long_sessions import long_session


@pytest.fixture
def session(project: Project) -> Session:
    return long_session(project, 1_000)


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


def stay(page: Page) -> None:
    page.evaluate("window.isTheSamePage = true")


def test_an_edge_resizes_the_part_and_the_window_moves_it(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=50"))
    stay(page)
    drag(page, 1.0, 0.2)
    expect(page).to_have_url(re.compile(r"step=50&zoom=1-200$"))
    expect(page.locator("[data-bars] > a")).to_have_count(200)
    drag(page, 0.1, 0.5)
    expect(page).to_have_url(re.compile(r"step=401&zoom=401-600$"))
    expect(page.locator("#step h2").first).to_have_text("Step 401")
    assert page.evaluate("window.isTheSamePage")


def test_arrows_resize_and_move_it_and_the_focus_stays(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=450&zoom=401-600"))
    last = page.get_by_role("slider", name="Last step of the part")
    last.focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"step=450&zoom=401-620$"))
    expect(last).to_be_focused()
    expect(last).to_have_attribute("aria-valuenow", "620")
    page.get_by_role("slider", name="Part that the timeline shows").focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile(r"step=220&zoom=1-220$"))
    expect(page.locator("#step h2").first).to_have_text("Step 220")


def test_the_whole_run_has_no_zoom_in_the_address(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=10&zoom=1-500"))
    page.get_by_role("slider", name="Last step of the part").focus()
    page.keyboard.press("End")
    expect(page).to_have_url(re.compile(r"step=10$"))
    assert step_in_view(page) == 10


def test_choices_are_drawn_in_place_and_following_steps_keep_them(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=50"))
    stay(page)
    page.get_by_text("Legend", exact=True).click()
    page.get_by_role("group", name="Colour of the bars").get_by_role("link", name="outcome").click()
    expect(page).to_have_url(re.compile(r"step=50&colour=outcome$"))
    expect(page.locator("#timeline-colours")).to_contain_text("success")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"step=51&colour=outcome$"))
    assert page.evaluate("window.isTheSamePage")


def test_the_playhead_of_the_minimap_follows(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=500"))
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 1,000")
    expect(page.locator("[data-map-playhead]")).to_have_attribute("x", "99.95%")


def test_steps_with_the_text_that_is_looked_for_are_marked(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=500"))
    page.get_by_role("searchbox", name="Find in this session").fill("notes.txt")
    page.keyboard.press("Enter")
    lines = page.locator("[data-map-hits]")
    expect(lines).to_have_attribute("d", re.compile(r"^M1 6v6M2 6v6.*M1000 6v6$"))
    page.locator("[data-find-clear]").click()
    expect(lines).to_have_attribute("d", "")
