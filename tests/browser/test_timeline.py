"""The timeline under the pointer: it zooms, and marks the step at its bar on either axis."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, step_in_view


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 60)


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


def test_a_click_jumps_dragging_zooms_in_and_the_zoomed_part_follows_the_playhead(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session))
    box = page.locator(".timeline-chart").bounding_box()
    assert box
    page.mouse.click(box["x"] + 0.5 * box["width"] + 3, box["y"] + 40)  # between bars
    expect(page.locator("#step h2").first).to_have_text("Step 31")
    assert "zoom" not in page.url
    drag(page, 0.252, 0.482)  # steps 16 to 29, and the part has 20
    expect(page).to_have_url(re.compile(r"step=31&zoom=16-35$"))
    page.get_by_role("group", name="Zoom").get_by_role("link", name="all").click()
    expect(page.locator("[data-bars] > a")).to_have_count(60)
    drag(page, 0.252, 0.748)
    expect(page).to_have_url(re.compile(r"step=31&zoom=16-45$"))
    expect(page.locator("[data-bars] > a")).to_have_count(30)
    expect(page.locator(".timeline-part")).to_have_text("steps 16–45")
    expect(page.locator("[data-cursor]")).not_to_have_attribute("display", "none")
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 60")
    expect(page).to_have_url(re.compile(r"step=60&zoom=31-60$"))
    expect(page.locator(".timeline-part")).to_have_text("steps 31–60")
    expect(page.locator("[data-cursor]")).not_to_have_attribute("display", "none")
    page.get_by_role("group", name="Zoom").get_by_role("link", name="all").click()
    expect(page.locator("[data-bars] > a")).to_have_count(60)
    assert step_in_view(page) == 60
    axes = page.get_by_role("group", name="Timeline by")
    axes.get_by_role("link", name="time").click()
    expect(axes.locator("[aria-current]")).to_have_text("time")
    expect_the_playhead_over_its_bar(page, 60)


def test_dragging_leaves_the_current_step_also_outside_of_the_part(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=50"))
    drag(page, 0.252, 0.582)  # steps 16 to 35
    expect(page).to_have_url(re.compile(r"step=50&zoom=16-35-50$"))
    expect(page.locator("[data-bars] > a")).to_have_count(20)
    expect(page.locator("#step h2").first).to_have_text("Step 50")
    expect(page.locator("#rows [aria-current=step]")).to_have_attribute("data-step", "50")
    expect(page.locator("[data-cursor]")).to_have_attribute("display", "none")
    expect(page.locator("[data-veil]")).to_have_attribute("x", "100%")
    page.reload()
    expect(page.locator("[data-bars] > a")).to_have_count(20)
    expect(page.locator("#step h2").first).to_have_text("Step 50")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"step=51&zoom=41-60$"))
    expect(page.locator("[data-cursor]")).not_to_have_attribute("display", "none")


IS_OVER_BAR = """step => {
    const place = (element, name) => parseFloat(element.getAttribute(name));
    const bar = document.querySelector(`[data-bars] > a:nth-child(${step}) > rect`);
    const middle = place(bar, "x") + place(bar, "width") / 2;
    return Math.abs(place(document.querySelector("[data-cursor]"), "x") - middle) < 0.2;
}"""
"""Whether the playhead is over the bar of a step; the bars of other steps are further away."""


def expect_the_playhead_over_its_bar(page: Page, step: int) -> None:
    """At the place that the server computes, and after moves by the script."""
    page.wait_for_function(IS_OVER_BAR, arg=step)
    for key, at in (("ArrowLeft", step - 1), ("ArrowRight", step)):
        page.keyboard.press(key)
        expect(page.locator("#step h2").first).to_have_text(f"Step {at}")
        page.wait_for_function(IS_OVER_BAR, arg=at)


@pytest.mark.thorough
def test_the_playhead_is_over_the_bar_of_a_step_on_either_axis(page: Page, session: Session) -> None:
    for axis in ("step", "time"):
        page.goto(page_of(session, f"?step=4&axis={axis}"))
        expect_the_playhead_over_its_bar(page, 4)
