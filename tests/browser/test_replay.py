"""The playhead: it plays, stops, jumps, listens to keys, and keeps address, list and timeline in step."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from playwright.sync_api import JSHandle, Page, Route, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, step_in_view
from tests.dashboard.long_sessions import long_session
from tests.examples import thorough

STEPS = 6


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, STEPS)


def expect_step(page: Page, number: int) -> None:
    """Checks that panel, address, list and field show the same step."""
    expect(page.locator("#step h2").first).to_have_text(f"Step {number:,}")
    expect(page).to_have_url(re.compile(rf"[?&]step={number}\b"))
    expect(page.locator("#rows [aria-current]")).to_have_attribute("data-step", str(number))
    expect(page.get_by_label("step", exact=True)).to_have_value(str(number))
    expect(page.get_by_label("Position of the playhead")).to_have_value(str(number))


def steps_shown(page: Page) -> JSHandle:
    """Records each step that is shown from now on, and when: a test that polls would miss some."""
    return page.evaluate_handle("""() => {
        const shown = [];
        const at = () => Number(document.querySelector("#step [data-at]").dataset.at);
        const note = () => shown.push({ step: at(), milliseconds: performance.now() });
        new MutationObserver(note).observe(document.getElementById("step"), { childList: true });
        return shown;
    }""")


def expect_shown(page: Page, shown: JSHandle, steps: Sequence[int]) -> None:
    page.wait_for_function("([shown, count]) => shown.length >= count", arg=[shown, len(steps)])
    assert [each["step"] for each in shown.json_value()] == list(steps)


def test_play_moves_to_the_end_and_then_begins_anew_unspoken_and_as_one_entry_in_the_history(
    page: Page, session: Session
) -> None:
    page.goto("/healthz")
    page.goto(page_of(session))
    page.get_by_label("Speed").select_option("8")
    shown = steps_shown(page)
    play = page.get_by_role("button", name="Play")
    play.click()
    expect_shown(page, shown, range(2, STEPS + 1))
    expect_step(page, STEPS)
    expect(play).to_have_attribute("aria-pressed", "false")
    shown = steps_shown(page)
    play.click()
    expect_shown(page, shown, range(1, STEPS + 1))
    expect_step(page, STEPS)
    expect(page.locator("[data-announced]")).to_be_empty()
    page.go_back()
    expect(page).to_have_url(re.compile("/healthz$"))


MOVES = """() => {
    const moves = [];
    addEventListener("htmx:beforeRequest", ({ detail }) => {
        const path = detail.pathInfo.finalRequestPath;
        if (/\\/steps\\/\\d+\\?/.test(path)) moves.push(path);
    });
    return moves;
}"""
"""The requests of the playhead for a step from now on; the step after it is fetched ahead."""


def test_a_replay_does_not_play_twice_and_a_pause_stays_where_it_is(page: Page, project: Project) -> None:
    steps = 60  # more than pass while a slow machine looks for the button
    page.goto(page_of(long_session(project, steps)))
    moves = page.evaluate_handle(MOVES)
    page.get_by_label("Speed").select_option("8")
    page.get_by_label("Pace", exact=True).select_option("one step per second")
    shown = steps_shown(page)
    page.evaluate("for (let times = 0; times < 5; times++) document.querySelector('[data-play]').click()")
    page.wait_for_function("shown => shown.length >= 4", arg=shown)
    play = page.get_by_role("button", name="Play")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "false")
    asked = moves.json_value()
    assert len(asked) == len(set(asked)) >= 4
    times = [each["milliseconds"] for each in shown.json_value()]
    rests = [later - earlier for earlier, later in pairwise(times)]
    assert min(rests) >= 120  # a second at ×8; two runs at once would each rest for that long
    page.wait_for_function("([shown, moves]) => shown.length >= moves.length", arg=[shown, moves])
    at = step_in_view(page)
    assert 1 < at < steps
    page.wait_for_timeout(500)  # in which four more would come
    assert step_in_view(page) == at
    page.get_by_role("link", name="Next step").click()
    expect_step(page, at + 1)


def test_keys_move_the_playhead_as_far_as_there_are_steps(page: Page, session: Session) -> None:
    with page.expect_response(re.compile("/steps/2")):
        page.goto(page_of(session))
    page.keyboard.press("ArrowRight")
    expect_step(page, 2)
    sizes = page.evaluate("""performance.getEntriesByType("resource")
        .filter((entry) => entry.name.includes("/steps/2")).map((entry) => entry.transferSize)""")
    assert len(sizes) == 2
    assert sizes[1] == 0, "the next step is fetched ahead"
    keys = ("ArrowLeft", 1), ("ArrowLeft", 1), ("G", STEPS), ("ArrowRight", STEPS), ("e", STEPS), ("g", 1)
    for key, step in keys:
        page.keyboard.press(key)
        expect_step(page, step)
    page.keyboard.press("e")
    expect_step(page, 3)
    expect(page.locator("[data-announced]")).to_contain_text("Step 3")
    expect(page.locator("[data-announced]")).to_contain_text("error")


def test_keys_belong_to_the_field_the_dialog_or_the_menu_that_is_used(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2"))
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    field = page.get_by_label("step", exact=True)
    field.fill("5")
    field.press("ArrowLeft")
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    field.press("Enter")
    expect_step(page, 5)
    page.get_by_label("Position of the playhead").fill("4")
    expect_step(page, 4)
    play = page.get_by_role("button", name="Play")
    page.keyboard.press("Space")
    expect(play).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Space")
    expect(play).to_have_attribute("aria-pressed", "false")
    speed = page.get_by_label("Speed")
    speed.dispatch_event("pointerdown")  # the menu of a select is no part of the page
    speed.focus()
    speed.select_option("2")
    expect(speed).not_to_be_focused()
    page.keyboard.press("Space")
    expect(play).to_have_attribute("aria-pressed", "true")


def test_arrows_change_a_view_reached_by_keyboard_and_move_the_playhead_after_a_click_on_one(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if"))
    page.get_by_role("textbox", name="Model").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="Contents")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Diff")).to_be_checked()
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    page.keyboard.press("e")
    expect_step(page, 3)
    page.get_by_text("Messages", exact=True).click()
    for key, step in (("ArrowRight", 4), ("e", 6), ("ArrowLeft", 5)):
        page.keyboard.press(key)
        expect_step(page, step)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("radio", name="Messages")).to_be_checked()


def test_clicks_jump_to_steps_and_to_errors_until_there_is_none(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.locator("#rows [data-step='4']").click()
    expect_step(page, 4)
    page.locator(".timeline-chart a").nth(1).locator("rect").first.click()
    expect_step(page, 2)
    button = page.locator("a[data-jump=next-error]")
    for step in (3, 6):
        button.click()
        expect_step(page, step)
    expect(button).to_have_attribute("aria-disabled", "true")


@pytest.mark.parametrize("width", [1440, thorough(360)])
def test_the_step_is_near_for_the_tab_key_and_back_and_forward_follow_links_and_jumps(
    page: Page, session: Session, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_of(session, "?step=2"), wait_until="networkidle")
    page.evaluate("addEventListener('htmx:beforeRequest', () => (window.asked = true))")
    presses = 0
    while not page.evaluate("document.activeElement.getAttribute('href') === '#step'"):
        presses += 1
        assert presses < 5
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#step$"))
    expect(page.locator("#step")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("#step :focus")).to_have_count(1)
    assert not page.evaluate("window.asked"), "a link to a part of the page loads nothing"
    for key, step in (("G", 6), ("g", 1)):
        page.keyboard.press(key)
        expect_step(page, step)
    for step in (6, 2):
        page.go_back()
        expect_step(page, step)
    page.go_forward()
    expect_step(page, 6)


def test_a_far_jump_brings_the_rows_around_it_and_scrolling_upward_keeps_their_place(
    page: Page, project: Project
) -> None:
    page.set_viewport_size({"width": 1440, "height": 930})
    page.goto(page_of(long_session(project, 120)))
    expect(page.locator("#rows [data-step='100']")).to_have_count(0)
    field = page.get_by_label("step", exact=True)
    field.fill("100")
    field.press("Enter")
    expect_step(page, 100)
    expect(page.locator("#rows [aria-current]")).to_be_in_viewport()
    row = page.locator("#rows [data-step='80']")
    row.scroll_into_view_if_needed()
    page.locator(".steps").hover()
    page.mouse.wheel(0, -300)
    expect(page.locator("#rows [data-step='60']")).to_have_count(1)
    expect(page.locator("#rows [data-step='1']")).to_have_count(0)
    expect(page.locator("#rows [data-step='78']")).to_be_in_viewport()


def test_an_unreachable_server_and_its_errors_are_reported_and_stop_the_replay(
    page: Page, session: Session
) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=404, content_type="text/plain", body="There is no such step.")

    # Before the page is open: one that is open already may get one more request past a route.
    page.route("**/steps/3**", lambda route: route.abort())
    page.route(f"**/steps/{STEPS}**", refuse)
    page.goto(page_of(session))
    page.get_by_label("Speed").select_option("8")
    play = page.get_by_role("button", name="Play")
    play.click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached")
    expect(play).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    page.unroute("**/steps/3**")
    page.keyboard.press("ArrowRight")
    expect_step(page, 3)
    expect(alert).to_be_hidden()
    page.keyboard.press("G")
    expect(alert).to_contain_text("There is no such step.")
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    page.context.clear_cookies()  # signed out in another tab
    page.keyboard.press("g")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=/sessions/"))


HOLD_KEYS = """async (times) => {
    const step = document.querySelector("#step [data-at]").dataset;
    window.loadInto = async (target, url) => {
        if (target.id === "step") step.at = url.match(/steps\\/(\\d+)/)[1];
    };
    for (let time = 0; time < times; time++) {
        const before = step.at;
        const key = time % 2 ? "ArrowRight" : "ArrowLeft";
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, repeat: true, bubbles: true }));
        while (step.at === before) await new Promise((done) => setTimeout(done));
    }
}"""
"""Moves to and fro between two steps without loading them, which would take seconds."""


def count_writes(page: Page) -> JSHandle:
    """Counts changes of the address from now on. Browsers allow 100 of them in 30 seconds."""
    return page.evaluate_handle("""() => {
        const counted = { writes: 0 };
        for (const name of ["pushState", "replaceState"]) {
            const write = history[name];
            history[name] = function (...values) { counted.writes += 1; return write.apply(this, values); };
        }
        return counted;
    }""")


def test_neither_a_quick_replay_nor_a_held_key_writes_the_address_too_often(
    page: Page, project: Project
) -> None:
    steps = 20
    page.goto(page_of(long_session(project, steps)))
    counted = count_writes(page)
    page.get_by_label("Speed").select_option("64")
    page.get_by_label("Pace", exact=True).select_option("one step per second")
    started = page.evaluate("performance.now()")
    page.get_by_role("button", name="Play").click()
    expect_step(page, steps)
    seconds = (page.evaluate("performance.now()") - started) / 1000
    assert counted.json_value()["writes"] <= 2 * (
        2 * seconds + 2
    )  # the context may write each step once more
    counted = count_writes(page)
    page.evaluate("performance.now = () => 60_000")  # however slow the machine is, no time passes
    page.evaluate(HOLD_KEYS, 98)
    assert counted.json_value()["writes"] == 90
