"""The playhead: it plays, stops, jumps, listens to keys, and keeps address, list and timeline in step."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from playwright.sync_api import JSHandle, Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, show_only_step_numbers, step_in_view
from tests.dashboard.long_sessions import long_session
from tests.examples import thorough

STEPS = 6


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, STEPS)


def step_is(page: Page, number: int) -> None:
    expect(page.locator("#step h2").first).to_have_text(f"Step {number}")


def expect_playing(page: Page, *, playing: bool = True) -> None:
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", str(playing).lower())


def expect_step(page: Page, number: int) -> None:
    """Checks that panel, address, list and field show the same step."""
    expect(page.locator("#step h2").first).to_have_text(f"Step {number:,}")
    expect(page).to_have_url(re.compile(rf"[?&]step={number}\b"))
    expect(page.locator("#rows [aria-current]")).to_have_attribute("data-step", str(number))
    expect(page.get_by_label("step", exact=True)).to_have_value(str(number))
    expect(page.get_by_label("Position of the playhead")).to_have_value(str(number))


def choose_pace(page: Page, *, speed: str, pace: str = "") -> None:
    """Sets the menus as a browser does when it restores a page. To open and use them takes longer."""
    page.get_by_label("Speed").evaluate("(menu, speed) => kept('replay-speed', (menu.value = speed))", speed)
    if pace:
        page.get_by_label("Pace", exact=True).evaluate("(menu, pace) => (menu.value = pace)", pace)


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
    page.wait_for_function("([shown, count]) => shown.length >= count", arg=[shown, len(steps)], polling=50)
    assert [each["step"] for each in shown.json_value()] == list(steps)


def test_play_moves_to_the_end_and_then_restarts_without_announcements_as_one_history_entry(
    page: Page, project: Project
) -> None:
    page.goto("/healthz")
    page.goto(page_of(record_session(project, 3)))
    choose_pace(page, speed="8")
    shown = steps_shown(page)
    page.keyboard.press("Space")
    expect_shown(page, shown, [2, 3])
    expect_playing(page, playing=False)
    page.keyboard.press("Space")
    expect_shown(page, shown, [2, 3, 1, 2, 3])
    expect_step(page, 3)
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


LATE_CONTEXT = """() => {
    const detail = { pathInfo: { finalRequestPath: "/context?step=2" } };
    const swapped = new CustomEvent("htmx:afterSwap", { bubbles: true, detail });
    document.getElementById("context").dispatchEvent(swapped);
}"""
"""The context of step 2 comes, but the replay shows a later step."""


def test_a_second_start_has_no_effect_and_a_paused_replay_does_not_move(page: Page, project: Project) -> None:
    steps = 60  # more than pass while a slow machine looks for the button
    page.goto(page_of(long_session(project, steps)))
    expect(page.locator("#context")).to_contain_text("Before step 1")
    page.route("**/context?**", lambda route: None)  # never answered: every step is too quick for it
    moves = page.evaluate_handle(MOVES)
    choose_pace(page, speed="4", pace="step")
    shown = steps_shown(page)
    page.evaluate("for (let times = 0; times < 5; times++) document.querySelector('[data-play]').click()")
    page.wait_for_function("shown => shown.length >= 4", arg=shown, polling=50)
    waits = page.locator("[data-context-waits]")
    expect(waits).to_have_text("Step 1. The panel updates when the replay is slower or stops.")
    page.evaluate(LATE_CONTEXT)
    assert waits.inner_text() == "Step 2. The panel updates when the replay is slower or stops."
    page.keyboard.press("Space")
    expect_playing(page, playing=False)
    expect(waits).to_be_hidden()
    requested = moves.json_value()
    assert len(requested) == len(set(requested)) >= 4
    times = [each["milliseconds"] for each in shown.json_value()]
    rests = [later - earlier for earlier, later in pairwise(times)]
    assert min(rests) >= 240  # a second at ×4; two runs at once would each rest for that long
    page.wait_for_function("([shown, moves]) => shown.length >= moves.length", arg=[shown, moves])
    at = step_in_view(page)
    assert 1 < at < steps
    page.unroute("**/context?**")
    page.get_by_role("link", name="Next step").click()
    expect_step(page, at + 1)
    page.keyboard.press("ArrowRight")  # until the first move, a request may have been under way
    expect(page.locator("#context")).to_contain_text(f"Before step {at + 2}")


def test_keys_and_clicks_move_the_playhead_within_the_steps_and_errors_stop_it(
    page: Page, session: Session
) -> None:
    with page.expect_response(re.compile("/steps/2")):
        page.goto(page_of(session))
    page.keyboard.press("ArrowRight")
    expect_step(page, 2)
    sizes = page.evaluate("""performance.getEntriesByType("resource")
        .filter((entry) => entry.name.includes("/steps/2")).map((entry) => entry.transferSize)""")
    assert len(sizes) == 2
    assert sizes[1] == 0, "the next step is fetched ahead"
    for step in (1, 1):
        page.keyboard.press("ArrowLeft")
        step_is(page, step)
    page.locator("#rows [data-step='4']").click()
    expect_step(page, 4)
    page.locator(".timeline-chart a").nth(1).locator("rect").first.click()
    expect_step(page, 2)
    page.keyboard.press("e")
    expect_step(page, 3)
    expect(page.locator("[data-announced]")).to_contain_text("Step 3")
    expect(page.locator("[data-announced]")).to_contain_text("error")
    button = page.locator("a[data-jump=next-error]")
    button.click()
    expect_step(page, STEPS)
    expect(button).to_have_attribute("aria-disabled", "true")
    for key in ("ArrowRight", "e"):
        page.keyboard.press(key)
        step_is(page, STEPS)
    expect_errors_to_be_reported_and_to_stop_the_replay(page)


def expect_errors_to_be_reported_and_to_stop_the_replay(page: Page) -> None:
    """Of an unreachable server, and the answers of one that can be reached. The playhead is at the end."""
    choose_pace(page, speed="8")
    page.route("**/steps/*", lambda route: route.abort())  # also those that were fetched ahead
    page.keyboard.press("Space")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached")
    expect_playing(page, playing=False)
    page.unroute("**/steps/*")
    page.keyboard.press("g")
    expect_step(page, 1)
    expect(alert).to_be_hidden()
    page.evaluate("document.querySelector('[data-at]').dataset.steps = 7")
    page.keyboard.press("G")
    expect(alert).to_contain_text("There is no step 7.")
    step_is(page, 1)
    page.context.clear_cookies()  # signed out in another tab
    page.keyboard.press("G")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=/sessions/"))


def test_a_focused_field_dialog_or_menu_receives_the_keys(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if"))
    show_only_step_numbers(page)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    step_is(page, 2)
    field = page.get_by_label("step", exact=True)
    field.fill("5")
    field.press("ArrowLeft")
    step_is(page, 2)
    field.press("Enter")
    step_is(page, 5)
    page.get_by_label("Position of the playhead").fill("4")
    step_is(page, 4)
    choose_pace(page, speed="0.5", pace="step")  # it must not end before it is seen to play
    for playing in (True, False):
        page.keyboard.press("Space")
        expect_playing(page, playing=playing)
    speed = page.get_by_label("Speed")
    speed.dispatch_event("pointerdown")  # the menu of a select is no part of the page
    speed.focus()
    speed.select_option("2")
    expect(speed).not_to_be_focused()
    expect_views_keep_arrows_that_reach_them_by_keyboard(page)


def expect_views_keep_arrows_that_reach_them_by_keyboard(page: Page) -> None:
    """From step 4. After a click on a view, arrows move the playhead."""
    page.get_by_role("textbox", name="Model").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="Contents")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Diff")).to_be_checked()
    step_is(page, 4)
    page.keyboard.press("e")
    step_is(page, 6)
    page.get_by_text("Messages", exact=True).click()
    for key, step in (("ArrowLeft", 5), ("E", 3), ("ArrowRight", 4)):
        page.keyboard.press(key)
        step_is(page, step)
    choose_pace(page, speed="0.5")
    page.keyboard.press("Space")
    expect_playing(page)
    expect(page.get_by_role("radio", name="Messages")).to_be_checked()


NOTE_LOADING = """() => {
    window.loading = [];
    addEventListener("htmx:beforeRequest", ({ detail }) => {
        const path = detail.pathInfo.finalRequestPath;
        if (detail.elt.matches("a") || path.includes("/steps/")) loading.push(path);
    });
}"""
"""Notes what a link loads from now on, or what the playhead does. Other parts load when the stream begins."""


COUNT_WRITES = """async () => {
    let writes = 0;
    for (const name of ["pushState", "replaceState"]) {
        const write = history[name];
        history[name] = function (...values) { writes += 1; return write.apply(this, values); };
    }
    performance.now = () => 1e9;
    for (let step = 1; step <= 6; step++) await send("show", { step });
    const quick = writes;
    const view = document.querySelector("#step [data-at]").dataset;
    for (let time = 0; time < 98; time++) {
        const before = view.at;
        const key = time % 2 ? "ArrowRight" : "ArrowLeft";
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, repeat: true, bubbles: true }));
        for (let wait = 0; view.at === before && wait < 2000; wait++)
            await new Promise((done) => setTimeout(done));
    }
    return [quick, writes];
}"""
"""Counts changes of the address during a quick replay, and those until a key was held. No time passes."""


@pytest.mark.parametrize("width", [1440, thorough(360)])
def test_the_tab_key_reaches_the_step_and_back_and_forward_follow_links_and_jumps(
    page: Page, session: Session, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_of(session, "?step=2"))
    page.evaluate(NOTE_LOADING)
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
    assert page.evaluate("window.loading") == [], "a link to a part of the page loads nothing"
    show_only_step_numbers(page)
    for key, step in (("G", 6), ("g", 1)):
        page.keyboard.press(key)
        expect_step(page, step)
    for step in (6, 2):
        page.go_back()
        expect_step(page, step)
    page.go_forward()
    expect_step(page, 6)
    assert page.evaluate(COUNT_WRITES) == [1, 90], "browsers allow 100 changes of the address in 30 seconds"


def test_a_far_jump_loads_the_rows_around_it_and_scrolling_upward_keeps_their_place(
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
