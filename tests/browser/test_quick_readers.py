"""Clicks and keys of a reader who is quicker than the page: none is lost."""

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import change_session
from tests.browser.test_timeline import IS_OVER_BAR
from tests.browser.visits import page_of, panel, record_session
from tests.services.drafts import act, failed


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project)


def test_a_part_that_is_unfolded_before_the_scripts_run_is_loaded(page: Page, session: Session) -> None:
    held: list[Route] = []
    page.route("**/htmx*.js", lambda route: held.append(route))
    page.goto(page_of(session, "?step=2"), wait_until="commit")
    panel(page).get_by_text("Usage and cost").click()
    expect(panel(page).locator(".chart a")).to_have_count(0)
    held[0].continue_()
    expect(panel(page).locator(".chart a")).to_have_count(6)


LOAD_AND_CLICK = """async ([url, link]) => {
    window.stayed = true;
    const step = document.getElementById("step");
    await loadInto(step, url);
    step.querySelector(link).click();
}"""


def test_a_link_in_a_part_that_has_just_come_does_not_leave_the_page(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2"))
    page.evaluate(LOAD_AND_CLICK, [page_of(session, "/steps/5"), ".unfold"])
    expect(page.locator("#step .unfold")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?step=2$"))
    assert page.evaluate("window.stayed")


def press(page: Page, control: Locator) -> Locator:
    """Holds the mouse button down in the middle of a control. Returns the control."""
    box = control.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    control.evaluate("control => (window.pressed = control)")
    return control


def wait_until_replaced(page: Page) -> None:
    page.wait_for_function("() => !window.pressed.isConnected")


SEARCH_AGAIN = """field => {
    field.value = "the totals";
    field.dispatchEvent(new Event("input"));
}"""


def test_a_click_on_an_option_that_is_replaced_while_the_button_is_down_is_not_lost(
    page: Page, session: Session
) -> None:
    page.goto("/")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search")
    press(page, palette.get_by_role("option", name="Repair the totals").first)
    palette.get_by_role("combobox").evaluate(SEARCH_AGAIN)
    wait_until_replaced(page)
    page.mouse.up()
    expect(page).to_have_url(re.compile(str(session.pk)))


def test_a_click_on_a_row_that_is_replaced_while_the_button_is_down_moves_the_playhead(
    page: Page, session: Session
) -> None:
    change_session(session.project, session.pk, {"status": "live"})
    page.goto(page_of(session, "?step=1&status=error"))
    press(page, page.locator("#rows [data-step='3']"))
    append(session.project, session.pk, [act("ls"), failed()])
    wait_until_replaced(page)
    page.mouse.up()
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    assert "step=3" in page.url


MOVE_DOWN = "control => (control.style.marginTop = '200px')"
COUNT_CLICKS = """() => {
    window.clicks = 0;
    document.addEventListener("click", (event) => {
        if (event.target.closest("summary")) clicks += 1;
    });
}"""


def test_a_click_on_a_part_that_moves_away_acts_unless_the_mouse_moves_too(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=2"))
    expect(page.locator("#context")).to_contain_text("Before step 2")
    summary = panel(page).locator(".tab summary", has_text="Usage and cost")
    page.evaluate(COUNT_CLICKS)
    summary.scroll_into_view_if_needed()
    press(page, summary)
    page.mouse.move(0, 0)
    page.mouse.up()
    press(page, summary).evaluate(MOVE_DOWN)
    page.mouse.up()
    expect(panel(page).locator(".chart a")).to_have_count(6)
    assert page.evaluate("window.clicks") == 1


PRESS_QUICKLY = """keys => {
    for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}"""
CLICK_QUICKLY = "link => { for (let times = 0; times < 3; times++) link.click(); }"
HOLD = """() => {
    const hold = () => new KeyboardEvent("keydown", { key: "ArrowRight", repeat: true, bubbles: true });
    for (let times = 0; times < 3; times++) document.body.dispatchEvent(hold());
}"""


def test_each_of_several_quick_keys_and_clicks_moves_the_playhead_and_a_held_key_shows_each_step(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=1&find=not+found"))
    step = page.locator("#step h2").first
    page.evaluate(PRESS_QUICKLY, ["ArrowRight", "j", "j", "k", "ArrowRight"])
    expect(step).to_have_text("Step 4")
    page.get_by_role("link", name="Previous step", exact=True).evaluate(CLICK_QUICKLY)
    expect(step).to_have_text("Step 1")
    page.evaluate(PRESS_QUICKLY, ["n", "n"])
    expect(step).to_have_text("Step 6")
    page.evaluate(PRESS_QUICKLY, ["n", "N", "g"])
    expect(step).to_have_text("Step 1")
    with page.expect_response(re.compile(r"/steps/3\?")):  # fetched ahead at step 2
        page.evaluate(HOLD)
    expect(step).to_have_text("Step 2")


def test_a_timeline_that_comes_after_a_move_has_the_playhead_at_the_new_step(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=2"))
    held: list[Route] = []
    page.route("**/timeline?**", lambda route: held.append(route))
    axes = page.get_by_role("group", name="Timeline by")
    axes.get_by_role("link", name="time").click()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#rows [aria-current]")).to_have_attribute("data-step", "3")
    held[0].continue_()
    expect(axes.locator("[aria-current]")).to_have_text("time")
    page.wait_for_function(IS_OVER_BAR, arg=3)
    expect(page).to_have_url(re.compile(r"\?step=3&axis=time$"))


CHOOSE_QUICKLY = """names => {
    const links = [...document.querySelectorAll("#timeline-form a")];
    for (const name of names) links.find((link) => link.textContent.trim() === name).click();
}"""


def test_two_quick_choices_of_the_timeline_both_apply(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2"))
    page.evaluate(CHOOSE_QUICKLY, ["time", "duration"])
    for group, choice in (("Timeline by", "time"), ("Height of the bars", "duration")):
        expect(page.get_by_role("group", name=group).locator("[aria-current]")).to_have_text(choice)


def test_a_key_pressed_while_a_search_is_on_its_way_wins_over_its_jump(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=1"))
    held: list[Route] = []
    page.route("**/find?**", lambda route: held.append(route))
    page.get_by_role("searchbox", name="Find in this session").fill("not found")
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    held[0].continue_()
    expect(page.locator("[data-found-place]")).to_have_text("2")
    page.keyboard.press("k")
    expect(page.locator("#step h2").first).to_have_text("Step 1")
