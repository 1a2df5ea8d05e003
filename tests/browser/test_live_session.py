"""The page of a session that an agent is recording shows new rows, and a playhead at its end follows them."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Request, Route, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import change_session, create_session
from tests.browser.visits import choose, hide, page_of, record_session, run_in_each_page
from tests.services.drafts import act, ask, failed, ok


@pytest.fixture
def session(project: Project) -> Session:
    session = record_session(project)
    change_session(project, session.pk, {"status": "live"})
    return session


def expect_step(page: Page, number: int) -> None:
    expect(page.locator("#step h2").first).to_have_text(f"Step {number:,}")
    expect(page).to_have_url(re.compile(rf"[?&]step={number}\b"))
    expect(page.locator("#rows [aria-current]")).to_have_attribute("data-step", str(number))


def expect_steps(page: Page, number: int) -> None:
    """Checks that facts, controls, timeline and list show the same number of steps."""
    expect(page.locator("#facts")).to_contain_text(f"{number} steps")
    expect(page.locator("#chips li").first).to_have_text(re.compile(rf"all\s+{number}$"))
    expect(page.locator("[data-total]")).to_have_text(str(number))
    expect(page.get_by_label("Position of the playhead")).to_have_attribute("max", str(number))
    expect(page.locator(".timeline-chart")).to_have_attribute("data-slots", str(number))
    expect(page.locator("#rows [data-step]")).to_have_count(number)


CHANGE = """document.dispatchEvent(new CustomEvent("playhead:change", { detail: { kind: "opened" } }))"""
"""As after a new connection."""
HOLD_POLLS = """
    const { EventSource, setInterval } = window, { now } = Date, polls = [];
    let later = 0;
    window.streams = [];
    window.EventSource = class extends EventSource {
        constructor(address) { super(address); streams.push(this); }
    };
    Date.now = () => now() + later;
    window.setInterval = (call, wait) => (wait === 3000 ? polls.push(call) : setInterval(call, wait));
    window.threeSecondsPass = () => { later += 3000; for (const poll of polls) poll(); };
"""


@pytest.fixture
def pass_three_seconds(page: Page) -> Iterator[Callable[[], None]]:
    """Polls only when it is called: what a page does not do takes no time to check."""
    with run_in_each_page(page, f"{{{HOLD_POLLS}}}"):
        yield lambda: page.evaluate("threeSecondsPass()")


def expect_no_polls(page: Page, pass_three_seconds: Callable[[], None]) -> None:
    """Checks that the page asks for no changes, by a stream or a request, when the next poll is due."""
    polls: list[str] = []

    def note(request: Request) -> None:
        if re.search(r"/(events|news\?.*)$", request.url):
            polls.append(request.url)

    page.on("request", note)
    pass_three_seconds()
    page.evaluate("fetch('/healthz').then((response) => response.text())")  # requests come in their order
    page.remove_listener("request", note)
    assert polls == []


def test_a_playhead_at_the_newest_step_follows_except_under_an_open_dialog(
    page: Page, project: Project, session: Session
) -> None:
    page.goto(page_of(session, "?step=6"))
    expect(page.locator("[data-following]")).to_have_count(1)
    append(project, session.pk, [ask("again"), act("look"), ok()])
    expect_step(page, 7)
    append(project, session.pk, [ask("again"), act("look"), ok()])
    expect_step(page, 8)
    expect_steps(page, 8)
    expect(page.locator("#rows .input-row", has_text="again")).to_have_count(2)
    expect(page.locator(".bar-news")).to_be_hidden()
    choose(page, "Rewind…")
    expect(page.get_by_role("dialog", name="Rewind")).to_be_visible()
    append(project, session.pk, [act("look"), ok()])
    expect_steps(page, 9)
    expect(page.locator("#step h2").first).to_have_text("Step 8")
    page.get_by_role("dialog").get_by_role("link", name="Cancel").click()
    page.get_by_role("link", name="Show the newest step").click()
    expect_step(page, 9)
    expect_a_rewind_to_be_followed(page, project, session)


def expect_a_rewind_to_be_followed(page: Page, project: Project, session: Session) -> None:
    """The agent rewinds while the playhead is at step 9."""
    rewind(project, session.pk, Target(to_step=2))
    expect_step(page, 2)
    expect(page.locator("#rows [data-step]")).to_have_count(2)
    expect(page.locator("#bars")).to_contain_text("Rewound: 7 steps cut off")
    append(project, session.pk, [act("another_way"), ok()])
    expect_step(page, 3)
    expect(page.locator("#bars")).not_to_contain_text("Rewound")


def test_at_an_older_step_a_bar_counts_new_steps_and_a_new_error_can_be_reached(
    page: Page, project: Project, session: Session
) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/news?*", hold_the_first)
    with page.expect_request("**/news?*"):
        page.goto(page_of(session, "?step=6"))
    page.keyboard.press("ArrowLeft")
    expect_step(page, 5)
    append(project, session.pk, [act("look"), ok()])
    held[0].continue_()  # it was sent at step 6: its rows have the mark there
    expect(page.get_by_text("1 new step.")).to_be_visible()
    expect_step(page, 5)
    append(project, session.pk, [act("look"), ok(), act("look"), failed()])
    expect(page.get_by_text("3 new steps.")).to_be_visible()
    expect_steps(page, 9)
    for step in (6, 9):
        page.keyboard.press("e")
        expect_step(page, step)
    expect(page.get_by_text("new steps.")).to_be_hidden()
    append(project, session.pk, [act("slow_tool")])
    expect_step(page, 10)
    expect_a_result_to_come(page, project, session)


def test_no_change_is_missed_while_the_scripts_of_a_page_are_still_loaded(
    page: Page, session: Session
) -> None:
    """The stream of a page says that it has begun, and live.js then asks for news."""

    def hold(route: Route) -> None:
        page.wait_for_timeout(500)
        route.continue_()

    page.route("**/joined/session*", hold)
    with page.expect_request("**/news?*", timeout=5000):
        page.goto(page_of(session, "?step=6"))


def expect_a_result_to_come(page: Page, project: Project, session: Session) -> None:
    """The result of the step in view, whose tool still runs."""
    expect(page.locator("#step")).to_contain_text("Proposed; no result yet.")
    expect(page.locator("#step .facts")).to_contain_text(re.compile(r"Running for [1-9]\d* s"))
    expect(page.locator("#rows [aria-current] .took")).to_have_text(re.compile(r"^[1-9]\d* s$"))
    expect(page.locator("#rows [aria-current] .outcome-in_flight")).to_have_count(1)
    append(project, session.pk, [ok(outputs="here it is")])
    expect(page.locator("#step")).to_contain_text("here it is")
    expect(page.locator("#rows [aria-current] .came")).to_contain_text("here it is")
    expect(page.locator("#rows [aria-current] .outcome")).to_have_count(0)
    expect(page.locator("#step .facts")).not_to_contain_text("Running")


def test_the_first_step_appears_on_an_empty_page(page: Page, project: Project) -> None:
    session = create_session(project, names={"title": "Begun"})
    page.goto(page_of(session))
    expect(page.get_by_role("heading", name="No steps yet")).to_be_visible()
    append(project, session.pk, [act("look"), ok()])
    expect(page.locator("#step h2").first).to_have_text("Step 1")
    expect(page.locator("[data-following]")).to_have_count(1)


HASTEN_HEAD = """{
    const { setTimeout } = window;
    window.setTimeout = (call, wait, ...rest) => {
        if (wait !== 5000) return setTimeout(call, wait, ...rest);
        return setTimeout(() => { window.timed = (window.timed ?? 0) + 1; call(); }, 20);
    };
    window.passTimes = (count) => new Promise((done) => {
        const last = (window.timed ?? 0) + count;
        const look = () => (window.timed >= last ? done() : setTimeout(look, 10));
        look();
    });
}"""


def test_the_head_asks_again_while_the_run_is_not_counted_and_the_page_is_visible(
    page: Page, session: Session
) -> None:
    asked: list[str] = []

    def count_slowly(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=204)

    page.route("**/head", count_slowly)
    with run_in_each_page(page, HASTEN_HEAD):
        page.goto(page_of(session))
        page.evaluate("passTimes(2)")
        hide(page, hidden=True)
        page.evaluate("fetch('/healthz').then((response) => response.text())")  # requests come in their order
        before = len(asked)
        page.evaluate("passTimes(3)")
        page.evaluate("fetch('/healthz').then((response) => response.text())")
        assert before > 1
        assert len(asked) == before
        page.unroute("**/head")
        hide(page, hidden=False)
        expect(page.locator("#run-time:not(.pending)")).to_have_count(1)
        expect(page.locator("#run-ending:not(.pending)")).to_have_count(1)


def test_a_page_that_was_opened_in_the_background_has_its_head_once_it_is_shown(
    page: Page, session: Session
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/head") else None)
    hidden = "{ Object.defineProperty(document, 'hidden', { configurable: true, value: true }); }"
    with run_in_each_page(page, hidden):
        page.goto(page_of(session))
        expect(page.locator("#step h2").first).to_be_visible()
        assert asked == []
        hide(page, hidden=False)
        expect(page.locator("#run-time:not(.pending)")).to_have_count(
            1, timeout=4000
        )  # it also asks every 5 s


@pytest.mark.thorough
def test_a_rewind_of_everything_leaves_an_empty_page(page: Page, project: Project, session: Session) -> None:
    page.goto(page_of(session, "?step=6"))
    rewind(project, session.pk, Target(to_step=0))
    expect(page.get_by_role("heading", name="No steps yet")).to_be_visible()
    expect(page.locator(".take")).to_contain_text("Take: 6 steps")


def test_a_hidden_page_does_not_poll_and_changes_of_an_outage_are_loaded_after_it(
    page: Page, project: Project, session: Session, pass_three_seconds: Callable[[], None]
) -> None:
    page.goto(page_of(session, "?step=6"))
    hide(page, hidden=True)
    assert page.evaluate("streams.map((stream) => stream.readyState)") == [2], "its stream is closed"
    append(project, session.pk, [act("look"), ok()])
    expect_no_polls(page, pass_three_seconds)
    hide(page, hidden=False)
    expect_step(page, 7)
    page.route("**/news?*", lambda route: route.abort())
    append(project, session.pk, [act("look"), ok()])
    unreachable = "The server cannot be reached. This page continues when it answers."
    expect(page.get_by_text(unreachable)).to_be_visible()
    expect(page.locator("body[data-unreachable]")).to_have_count(1)
    page.unroute("**/news?*")
    expect_step(page, 8)
    expect(page.get_by_text(unreachable)).to_be_hidden()
    expect(page.locator("body[data-unreachable]")).to_have_count(0)


def test_a_newest_step_that_could_not_be_loaded_is_followed_after_the_outage(
    page: Page, project: Project, session: Session
) -> None:
    page.goto(page_of(session, "?step=6"))
    for number, is_rescued_by_the_next_step in ((7, True), (9, False)):
        page.route("**/steps/*", lambda route: route.abort())
        with page.expect_event("requestfailed"):
            append(project, session.pk, [act("look"), ok()])
        expect(page.get_by_text("1 new step.")).to_be_visible()
        expect(page.locator("#step h2").first).to_have_text(f"Step {number - 1}")
        page.unroute("**/steps/*")
        if is_rescued_by_the_next_step:
            append(project, session.pk, [act("look"), ok()])
            expect_step(page, number + 1)
        else:
            page.evaluate(CHANGE)
            expect_step(page, number)
    page.keyboard.press("ArrowLeft")
    expect_step(page, 8)
    page.evaluate(CHANGE)
    append(project, session.pk, [act("look"), ok()])
    expect(page.get_by_text("new step")).to_be_visible()
    expect_step(page, 8)


def test_a_page_without_a_stream_polls_every_three_seconds_until_the_session_is_finished(
    page: Page, project: Project, session: Session, pass_three_seconds: Callable[[], None]
) -> None:
    page.route("**/events", lambda route: route.fulfill(status=404))
    page.goto(page_of(session, "?step=6"))
    append(project, session.pk, [act("look"), ok()])
    pass_three_seconds()
    expect_step(page, 7)
    change_session(project, session.pk, {"status": "finished"})
    pass_three_seconds()
    expect(page.locator("#facts")).to_contain_text("finished")
    expect_no_polls(page, pass_three_seconds)


def test_the_overview_grows_after_a_click_and_not_while_a_part_of_it_is_unfolded(
    page: Page, project: Project, session: Session
) -> None:
    page.goto(f"/sessions/{session.pk}/overview")
    expect(page.locator("#facts")).to_contain_text("6 steps")
    with page.context.expect_page() as other:  # its link keeps the focus, as after each click
        page.locator("#overview a[href*='step=']").first.click(modifiers=["Control"])
    other.value.close()
    append(project, session.pk, [act("another_way"), failed()])
    expect(page.locator("#facts")).to_contain_text("7 steps")
    expect(page.locator("#overview")).to_contain_text("another_way")
    part = page.locator("#overview details").first
    part.locator("summary").click()
    append(project, session.pk, [act("look"), ok()])
    expect(page.locator("#overview")).to_have_attribute("data-reload-due", "")
    expect(part).to_have_attribute("open", "")
    expect(page.locator("#facts")).to_contain_text("7 steps")
    part.locator("summary").click()
    page.locator("h1").click()
    expect(page.locator("#facts")).to_contain_text("8 steps")


@pytest.mark.thorough
def test_a_run_appears_among_the_compressions(page: Page, project: Project, session: Session) -> None:
    page.goto("/compressions")
    expect(page.get_by_role("heading", name="No compressions yet")).to_be_visible()
    start_run(project, session.pk, RunRequest(from_step=1, to_step=1))
    expect(page.locator(".run")).to_have_count(1)
