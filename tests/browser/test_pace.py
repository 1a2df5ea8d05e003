"""The pace of a replay: recorded times, shortened pauses, beats, text that appears, and what stops it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from playwright.sync_api import JSHandle, Page, expect

from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults, UseTool
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.browser.test_replay import choose_pace, expect_playing, expect_shown, expect_step, steps_shown
from tests.browser.visits import hide, page_of, step_in_view
from tests.dashboard.long_sessions import long_session
from tests.examples import thorough
from tests.services.drafts import ask, draft

START = datetime(2026, 3, 1, 14, 3, 22, tzinfo=UTC)
THOUGHTS = "The parser drops the last line, so the totals are wrong. " * 4


def step_at(begin: float, output: float, end: float, *, has_question: bool = False) -> list[EntryDraft]:
    """A step at seconds from the start. With a question, a person's input comes when the step begins."""
    times = [START + timedelta(seconds=seconds) for seconds in (begin, output, end)]
    wrote = ModelOutput(thoughts=THOUGHTS, use_tool=UseTool(name="ls"))
    came = ToolResults(results=(ToolResult(status="success", outputs="fine"),))
    question = [draft(ask("And the totals?").body, times[0])] if has_question else []
    return [*question, draft(wrote, times[1]), draft(came, times[2])]


def record(project: Project, *steps: Sequence[EntryDraft], status: str = "finished") -> Session:
    session = create_session(project, names={"title": "Paced"})
    append(project, session.pk, [each for step in steps for each in step])
    Session.objects.filter(pk=session.pk).update(status=status)
    session.refresh_from_db()
    return session


def play(page: Page, session: Session, speed: str, pace: str = "recorded", query: str = "") -> JSHandle:
    """Plays, and returns a list of the replay's notes. A test that polls would miss some of them."""
    page.goto(page_of(session, query))
    choose_pace(page, speed=speed, pace=pace)
    notes = page.evaluate_handle("""() => {
        const notes = [];
        const note = document.querySelector("[data-replay-note]");
        new MutationObserver(() => notes.push(note.textContent)).observe(note, { childList: true });
        return notes;
    }""")
    page.keyboard.press("Space")
    return notes


def expect_note(page: Page, notes: JSHandle, pattern: str) -> None:
    page.wait_for_function(
        "([notes, pattern]) => notes.some((note) => new RegExp(pattern).test(note))",
        arg=[notes, pattern],
        polling=50,
    )


def expect_stopped(page: Page) -> None:
    expect_playing(page, playing=False)


def expect_stopped_at(page: Page, step: int) -> None:
    expect_step(page, step)
    expect_stopped(page)


def test_steps_stay_for_their_duration_long_pauses_are_shortened_and_a_clock_shows_the_time(
    page: Page, project: Project
) -> None:
    quick = step_at(0, 1, 2), step_at(2, 5, 10), step_at(10, 10.1, 11)
    session = record(project, *quick, step_at(731, 734, 735, has_question=True), step_at(735, 749, 755))
    notes = play(page, session, "0.5")
    # 37 s: the shortened pause is 2 s of them. Twice as long at half the speed.
    expect_note(page, notes, "about 1 min ([0-9]|1[0-5]) s left")
    shown = steps_shown(page)
    choose_pace(page, speed="16")
    expect_note(page, notes, "pause of 12 min 0 s, shortened to 0.13 s.* left")
    expect_shown(page, shown, [2, 3, 4, 5])
    times = [each["milliseconds"] for each in shown.json_value()]
    long, short, _ = (later - earlier for earlier, later in pairwise(times))
    assert long >= 490
    assert short < 20_000, "the pause alone would take 45 seconds"
    choose_pace(page, speed="64")
    expect_stopped_at(page, 5)
    expect(page.locator("[data-replay-note]")).to_be_empty()
    page.keyboard.press("ArrowLeft")
    clock = page.locator("[data-clock] time")
    expect(clock).to_have_attribute("datetime", "2026-03-01T14:15:36Z")
    expect(clock).to_have_text(page.evaluate("new Date('2026-03-01T14:15:36Z').toLocaleTimeString('en-GB')"))


def test_until_a_speed_is_chosen_a_long_run_takes_two_minutes(page: Page, project: Project) -> None:
    session = record(project, *(step_at(25 * n, 25 * n + 20, 25 * n + 25) for n in range(24)))  # 10 min
    page.goto(page_of(session, "?step=1"))
    speed = page.get_by_label("Speed")
    expect(speed).to_have_value("1")
    page.keyboard.press("Space")
    expect(speed).to_have_value("8")
    reason = "×8, because ×1 would take about 9 min 40 s"
    expect(page.locator("[data-replay-note]")).to_contain_text(reason)
    expect(speed).to_have_attribute("title", f"Speed of the replay: {reason}")
    page.keyboard.press("Space")
    expect_stopped(page)
    page.get_by_label("Pace", exact=True).select_option("turn")
    expect(speed).to_have_value("1")
    expect(speed).to_have_attribute("title", "Speed of the replay")
    speed.select_option("2")
    page.get_by_label("Pace", exact=True).select_option("recorded")
    expect(speed).to_have_value("2")
    page.keyboard.press("Space")
    expect(page.locator("[data-replay-note]")).to_contain_text("left")
    expect(page.locator("[data-replay-note]")).not_to_contain_text("because")


def test_one_step_a_second_shows_the_time_of_each_step(page: Page, project: Project) -> None:
    session = record(project, step_at(0, 1, 2), step_at(2, 5, 10), step_at(10, 11, 12))
    page.goto(page_of(session))
    times = page.evaluate_handle("""() => {
        const times = [];
        const note = () => times.push(document.querySelector("[data-clock] time").dateTime.slice(11));
        new MutationObserver(note).observe(document.querySelector("[data-clock]"), { childList: true });
        return times;
    }""")
    choose_pace(page, speed="16", pace="step")
    page.keyboard.press("Space")
    expect_stopped_at(page, 3)
    assert times.json_value()[-2:] == ["14:03:27Z", "14:03:33Z"]


def test_turn_by_turn_shows_the_first_step_of_each_turn(page: Page, project: Project) -> None:
    turns = [step_at(n, n + 0.1, n + 0.2, has_question=n % 3 == 0) for n in range(8)]
    session = record(project, *turns)
    page.goto(page_of(session))
    shown = steps_shown(page)
    choose_pace(page, speed="8", pace="turn")
    page.keyboard.press("Space")
    expect_stopped_at(page, 8)
    assert [each["step"] for each in shown.json_value()] == [4, 7, 8]
    times = [each["milliseconds"] for each in shown.json_value()]
    whole, newest = (later - earlier for earlier, later in pairwise(times))
    assert whole >= 270  # 2.2 s at ×8
    assert newest >= 140
    page.route("**/jump?**", lambda route: route.abort())
    page.keyboard.press("Space")
    expect(page.locator("[data-replay-note]")).to_contain_text("The server cannot be reached.")
    expect_stopped_at(page, 1)


@pytest.mark.thorough
def test_a_turn_stays_for_its_duration_or_is_shortened(page: Page, project: Project) -> None:
    quick = [step_at(0, 1, 2, has_question=True), step_at(2, 3, 8)]
    session = record(project, *quick, step_at(60, 61, 62, has_question=True), step_at(62, 80, 182))
    expect_note(page, play(page, session, "0.5", "turn"), "^turn of 8.0 s$")
    notes = play(page, session, "0.5", "turn", "?step=3")
    expect_note(page, notes, "^turn of 2 min 2 s, shortened to 4 s$")


@pytest.mark.thorough
def test_a_session_of_20_000_steps_is_replayed(page: Page, project: Project) -> None:
    session = long_session(project, 20_000)
    page.goto(page_of(session, "?step=10000"))
    shown = steps_shown(page)
    page.get_by_label("Speed").select_option("64")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-replay-note]")).to_contain_text(re.compile("about 1 min .* left"))
    page.wait_for_function("shown => shown.length >= 10", arg=shown)
    page.keyboard.press("Space")
    expect_stopped(page)
    assert [each["step"] for each in shown.json_value()][:10] == list(range(10_001, 10_011))


PAUSE_WHILE_TEXT_APPEARS = """() => new Promise((done) => {
    const isAppearing = () => document.querySelector("[data-clock] time").dateTime >= "2026-03-01T14:03:26"
        && CSS.highlights.has("unwritten");
    const pause = () => {
        if (!isAppearing()) return;
        clearInterval(timer);
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
        done();
    };
    const timer = setInterval(pause, 20);
})"""
"""Presses the space bar in the same task that sees the text: it appears for two seconds."""


def test_text_appears_gradually_at_a_readable_pace_and_a_pause_shows_it_completely(
    page: Page, project: Project
) -> None:
    session = record(project, step_at(0, 0.1, 0.2), step_at(1, 19, 20), step_at(20, 20, 20))
    page.goto(page_of(session))
    expect_whole_text_at_once(page)
    choose_pace(page, speed="8")
    page.keyboard.press("Space")
    page.evaluate(PAUSE_WHILE_TEXT_APPEARS)
    expect_stopped_at(page, 2)
    assert not page.evaluate("CSS.highlights.has('unwritten')")
    expect(page.locator("#step [data-unwritten]")).to_have_count(0)
    expect(page.locator("#step .action")).to_be_visible()
    choose_pace(page, speed="0.5")
    page.keyboard.press("Space")  # the step continues where it was
    expect(page.locator("[data-replay-note]")).to_have_text(re.compile("model call of 18.8 s, about .* left"))
    time = page.locator("[data-clock] time").get_attribute("datetime") or ""
    assert "2026-03-01T14:03:26" <= time < "2026-03-01T14:03:41"
    page.wait_for_function("() => CSS.highlights.has('unwritten')", polling=50)
    thought = page.locator("#step .part-thought p")
    expect(thought).to_contain_text("drops the last line")  # nothing but its colour is missing
    expect(page.locator("#step .action")).to_be_hidden()
    choose_pace(page, speed="64")
    page.wait_for_function("() => !CSS.highlights.has('unwritten')", polling=50)
    expect(page.locator("#step [data-unwritten]")).to_have_count(0)
    expect(page.locator("#step .action")).to_be_visible()


def expect_whole_text_at_once(page: Page) -> None:
    """Plays too quickly for a reader, then for one who wants no motion, and returns to the first step."""
    page.evaluate("""() => {
        window.wrote = false;
        new MutationObserver(() => (window.wrote = true))
            .observe(document.querySelector("main"), { attributeFilter: ["data-writing"] });
    }""")
    choose_pace(page, speed="64")
    page.keyboard.press("Space")
    expect_stopped_at(page, 3)
    page.emulate_media(reduced_motion="reduce")
    shown = steps_shown(page)
    choose_pace(page, speed="8")
    page.keyboard.press("Space")
    page.wait_for_function("shown => shown.length > 1", arg=shown, polling=50)
    page.keyboard.press("g")  # stops it
    expect_step(page, 1)
    assert not page.evaluate("window.wrote")
    page.emulate_media(reduced_motion="no-preference")


@pytest.mark.parametrize("width", [thorough(1440), 1024, thorough(600)])
def test_a_replay_keeps_the_layout_follows_a_live_run_and_stops_when_a_reader_acts_or_leaves(
    page: Page, project: Project, width: int
) -> None:
    session = record(project, *(step_at(n, n + 0.5, n + 20) for n in range(2)), status="live")
    page.set_viewport_size({"width": width, "height": 930})
    page.goto(page_of(session))
    expect(page.locator(".session-head .pending")).to_have_count(0)  # the figures of the run are shown
    top = "document.querySelector('.panes').getBoundingClientRect().top"
    before = page.evaluate(top)
    for pane, event in (("#step", "pointerdown"), (".context-pane", "wheel")):
        page.get_by_role("button", name="Play").click()
        expect(page.locator("[data-replay-note]")).to_contain_text("left")
        assert page.evaluate(top) == before
        page.dispatch_event(pane, event)
        expect_stopped(page)
    assert step_in_view(page) == 1
    expect_to_reach_a_new_end(page, session)
    page.keyboard.press("Space")
    expect_playing(page)
    hide(page, hidden=True)
    expect_stopped(page)


def expect_to_reach_a_new_end(page: Page, session: Session) -> None:
    """The replay continues while the session grows, even if other requests of the page are pending."""
    choose_pace(page, speed="0.5")  # the step stays for 40 s: the news come before its end
    page.keyboard.press("Space")
    append(session.project, session.pk, step_at(3, 3.1, 3.2))
    expect(page.locator("[data-total]")).to_have_text("3")
    expect_playing(page)
    with page.expect_request("**/news?**"):  # the page may also send one before the event
        page.route("**/news?**", lambda route: None)  # never answered
        page.evaluate(
            "document.dispatchEvent(new CustomEvent('playhead:change', {detail: {kind: 'entries'}}))"
        )
    choose_pace(page, speed="64")
    expect_stopped_at(page, 3)


@pytest.mark.thorough
def test_a_replay_fits_a_narrow_screen(page: Page, project: Project) -> None:
    session = record(project, *(step_at(n, n + 0.5, n + 20) for n in range(3)))
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(page_of(session))
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-replay-note]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
