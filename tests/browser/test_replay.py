"""The playhead: it plays, stops, jumps, listens to keys, and keeps address, list and timeline in step."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from playwright.sync_api import JSHandle, Page, Request, Route, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from tests.browser.visits import page_of, record_session, step_in_view
from tests.services.drafts import act, ok

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


def test_play_moves_to_the_end_and_stops_there_and_then_begins_anew(page: Page, session: Session) -> None:
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


def test_pause_stays_where_it_is(page: Page, project: Project) -> None:
    steps = 60  # more than pass while a slow machine looks for the button
    page.goto(page_of(record_session(project, steps)))
    under_way: set[Request] = set()
    page.on("request", lambda request: under_way.add(request))
    for end in ("requestfinished", "requestfailed"):
        page.on(end, lambda request: under_way.discard(request))
    page.get_by_label("Speed").select_option("8")
    page.keyboard.press("Escape")
    play = page.get_by_role("button", name="Play")
    play.click()
    expect(page.locator("#step h2").first).not_to_have_text("Step 1")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "false")
    page.wait_for_timeout(500)
    for _ in range(100):  # until the step that was on its way has come
        if under_way:
            page.wait_for_timeout(100)
    at = step_in_view(page)
    assert 1 < at < steps
    page.wait_for_timeout(500)  # in which four more would come
    assert step_in_view(page) == at
    page.get_by_role("link", name="Next step").click()
    expect_step(page, at + 1)


def test_keys_move_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    for key, step in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("G", 6), ("g", 1), ("e", 3)):
        page.keyboard.press(key)
        expect_step(page, step)


def test_pausing_and_playing_again_does_not_play_twice(page: Page, project: Project) -> None:
    page.goto(page_of(record_session(project, 30)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if _is_move(request) else None)
    page.get_by_label("Pace", exact=True).select_option("one step per second")
    shown = steps_shown(page)
    play = "document.querySelector('[data-play]')"
    page.evaluate(f"for (let times = 0; times < 5; times++) {play}.click()")
    page.wait_for_function("shown => shown.length >= 4", arg=shown)
    assert len(asked) == len(set(asked))
    times = [each["milliseconds"] for each in shown.json_value()]
    rests = [later - earlier for earlier, later in pairwise(times)]
    assert min(rests) >= 990  # two runs at once would each rest their second


def _is_move(request: Request) -> bool:
    """Whether the playhead asks for a step; the step after it is fetched ahead."""
    return request.resource_type == "xhr" and re.search(r"/steps/\d+\?", request.url) is not None


def test_jumps_are_spoken_and_replay_is_not(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("e")
    expect(page.locator("[data-announced]")).to_contain_text("Step 3")
    expect(page.locator("[data-announced]")).to_contain_text("error")
    page.get_by_label("Speed").select_option("8")
    page.get_by_role("button", name="Play").click()
    expect_step(page, STEPS)
    expect(page.locator("[data-announced]")).to_contain_text("Step 3")


def test_space_plays_and_pauses_also_after_a_speed_was_chosen_by_mouse(page: Page, session: Session) -> None:
    page.goto(page_of(session))
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


def test_keys_at_the_ends_change_nothing(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=1"))
    page.keyboard.press("ArrowLeft")
    expect_step(page, 1)
    page.keyboard.press("G")
    expect_step(page, STEPS)
    page.keyboard.press("ArrowRight")
    expect_step(page, STEPS)
    page.keyboard.press("e")
    expect_step(page, STEPS)


def test_keys_belong_to_the_field_that_has_the_focus(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    field = page.get_by_label("step", exact=True)
    field.fill("5")
    field.press("ArrowLeft")
    expect(page.locator("#step h2").first).to_have_text("Step 1")
    field.press("Enter")
    expect_step(page, 5)


def test_a_view_chosen_by_pointer_leaves_the_keys_to_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?mode=what_if"))
    page.get_by_text("Messages", exact=True).click()
    for key, step in (("ArrowRight", 2), ("e", 3), ("ArrowLeft", 2), ("G", 6), ("g", 1)):
        page.keyboard.press(key)
        expect_step(page, step)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("radio", name="Messages")).to_be_checked()


def test_a_view_reached_by_keyboard_is_changed_by_arrows(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2&mode=what_if"))
    page.get_by_role("textbox", name="Model").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="Contents")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Diff")).to_be_checked()
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    page.keyboard.press("e")
    expect_step(page, 3)


def test_the_question_mark_lists_the_keys(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    expect_step_1 = page.locator("#step h2").first
    expect(expect_step_1).to_have_text("Step 1")


def test_the_slider_scrubs(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.get_by_label("Position of the playhead").fill("4")
    expect_step(page, 4)


def test_the_next_error_is_found_until_there_is_none(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    button = page.locator("a[data-jump=next-error]")
    for step in (3, 6):
        button.click()
        expect_step(page, step)
    expect(button).to_have_attribute("aria-disabled", "true")


def test_a_click_on_strip_or_list_jumps(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.locator("#rows [data-step='4']").click()
    expect_step(page, 4)
    page.locator(".timeline-chart a").nth(1).locator("rect").first.click()
    expect_step(page, 2)


def test_back_and_forward_follow_the_jumps(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("G")
    expect_step(page, 6)
    page.keyboard.press("g")
    expect_step(page, 1)
    page.go_back()
    expect_step(page, 6)
    page.go_back()
    expect(page.locator("#step h2").first).to_have_text("Step 1")
    page.go_forward()
    expect_step(page, 6)


def test_a_link_to_a_part_of_the_page_loads_nothing_and_can_be_gone_back_to(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=2"), wait_until="networkidle")
    page.evaluate("addEventListener('htmx:beforeRequest', () => (window.asked = true))")
    arrived = "new Promise((done) => addEventListener('hashchange', done))"
    page.evaluate(f"document.querySelector('.skip').click(), {arrived}")
    assert not page.evaluate("window.asked")
    page.keyboard.press("G")
    expect_step(page, 6)
    page.go_back()
    expect_step(page, 2)


def test_playing_leaves_one_entry_in_the_history(page: Page, session: Session) -> None:
    page.goto("/")
    page.goto(page_of(session))
    page.get_by_label("Speed").select_option("8")
    page.get_by_role("button", name="Play").click()
    expect_step(page, STEPS)
    page.go_back()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_the_address_can_be_shared(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("e")
    expect_step(page, 3)
    address = page.url
    page.goto("/")
    page.goto(address)
    expect_step(page, 3)


def test_a_far_jump_brings_the_rows_around_it(page: Page, project: Project) -> None:
    session = record_session(project, 120)
    page.goto(page_of(session))
    expect(page.locator("#rows [data-step='110']")).to_have_count(0)
    field = page.get_by_label("step", exact=True)
    field.fill("110")
    field.press("Enter")
    expect_step(page, 110)
    expect(page.locator("#rows [aria-current]")).to_be_in_viewport()


def test_scrolling_the_list_upward_keeps_its_place(page: Page, project: Project) -> None:
    session = record_session(project, 120)
    page.set_viewport_size({"width": 1440, "height": 930})
    page.goto(page_of(session, "?step=100"))
    row = page.locator("#rows [data-step='80']")
    row.scroll_into_view_if_needed()
    page.locator(".steps").hover()
    page.mouse.wheel(0, -300)
    expect(page.locator("#rows [data-step='60']")).to_have_count(1)
    expect(page.locator("#rows [data-step='1']")).to_have_count(0)
    expect(page.locator("#rows [data-step='78']")).to_be_in_viewport()


def test_the_next_step_is_prefetched(page: Page, session: Session) -> None:
    with page.expect_response(re.compile("/steps/2")):
        page.goto(page_of(session))
    page.keyboard.press("ArrowRight")
    expect_step(page, 2)
    sizes = page.evaluate("""performance.getEntriesByType("resource")
        .filter((entry) => entry.name.includes("/steps/2")).map((entry) => entry.transferSize)""")
    assert len(sizes) == 2
    assert sizes[1] == 0


def test_the_past_is_replayed_in_the_past(page: Page, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("another_way"), ok()])
    page.goto(page_of(session, f"?as_of={session.head}&step=3"))
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(rf"\?step=4&as_of={session.head}$"))
    expect(page.locator("#step")).to_contain_text("text 4")


def test_an_unreachable_server_is_reported_and_stops_the_replay(page: Page, session: Session) -> None:
    page.route("**/steps/3**", lambda route: route.abort())
    page.goto(page_of(session))
    page.get_by_label("Speed").select_option("8")
    play = page.get_by_role("button", name="Play")
    play.click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(play).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    page.unroute("**/steps/3**")
    page.keyboard.press("ArrowRight")
    expect_step(page, 3)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_an_error_of_the_server_is_shown_in_its_words(page: Page, session: Session) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=404, content_type="text/plain", body="There is no such step.")

    page.route(f"**/steps/{STEPS}**", refuse)  # a page that is open already may get one more request past it
    page.goto(page_of(session))
    page.wait_for_load_state("networkidle")  # the context beside the step has come
    page.keyboard.press("G")  # not the next step, which has been fetched ahead
    expect(page.get_by_role("alert")).to_contain_text("There is no such step.")
    expect(page.locator("#step h2").first).to_have_text("Step 1")


def test_signing_out_elsewhere_leads_to_signing_in_and_back(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.context.clear_cookies()
    page.keyboard.press("G")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=/sessions/"))


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


def test_a_quick_replay_writes_the_address_seldom(page: Page, project: Project) -> None:
    page.goto(page_of(record_session(project, 60)))
    counted = count_writes(page)
    page.get_by_label("Speed").select_option("64")
    begun = page.evaluate("performance.now()")
    page.get_by_role("button", name="Play").click()
    expect_step(page, 60)
    seconds = (page.evaluate("performance.now()") - begun) / 1000
    assert counted.json_value()["writes"] <= 2 * (
        2 * seconds + 2
    )  # the context may write each step once more


def test_a_key_that_is_held_does_not_write_the_address_too_often(page: Page, project: Project) -> None:
    page.goto(page_of(record_session(project, 100)))
    counted = count_writes(page)
    page.evaluate("performance.now = () => 60_000")  # however slow the machine is, no time passes
    for step in range(2, 100):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"() => document.querySelector('#step [data-at]').dataset.at === '{step}'")
    assert counted.json_value()["writes"] == 90
