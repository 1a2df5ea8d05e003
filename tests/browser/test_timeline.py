"""The timeline under the pointer: it zooms, and marks the step wherever the bars stand."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, step_in_view
from tests.examples import thorough


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 120)


def drag(page: Page, start: float, end: float) -> None:
    """From one part of the timeline's width to another, with the mouse."""
    box = page.locator(".timeline-chart").bounding_box()
    assert box
    y = box["y"] + 40
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 * box["width"], y)
    page.mouse.move(box["x"] + end * box["width"], y)
    page.mouse.up()


def test_a_click_jumps_dragging_zooms_in_and_outside_of_a_zoom_the_playhead_is_hidden(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session))
    box = page.locator(".timeline-chart").bounding_box()
    assert box
    page.mouse.click(box["x"] + 0.5 * box["width"] + 3, box["y"] + 40)  # between bars
    expect(page.locator("#step h2").first).to_have_text("Step 61")
    assert "zoom" not in page.url
    drag(page, 0.252, 0.748)
    expect(page).to_have_url(re.compile(r"step=61&zoom=31-90$"))
    expect(page.locator("[data-bars] > a")).to_have_count(60)
    expect(page.locator("[data-cursor]")).not_to_have_attribute("display", "none")
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 120")
    expect(page).to_have_url(re.compile(r"step=120&zoom=31-90$"))
    expect(page.locator("[data-cursor]")).to_have_attribute("display", "none")
    page.get_by_role("group", name="Zoom").get_by_role("link", name="all").click()
    expect(page.locator("[data-bars] > a")).to_have_count(120)
    assert step_in_view(page) == 120


@pytest.mark.parametrize("axis", [thorough("step"), "time"])
def test_the_playhead_stands_over_the_bar_of_its_step(page: Page, session: Session, axis: str) -> None:
    page.goto(page_of(session, f"?step=3&axis={axis}"))
    cursor = page.locator("[data-cursor]")
    place = cursor.get_attribute("x") or ""
    page.keyboard.press("ArrowRight")
    expect(cursor).not_to_have_attribute("x", place)
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    later = cursor.get_attribute("x") or ""
    page.keyboard.press("ArrowLeft")
    expect(cursor).not_to_have_attribute("x", later)
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    back = cursor.get_attribute("x") or ""
    assert float(back.rstrip("%")) == pytest.approx(float(place.rstrip("%")), abs=0.2)
