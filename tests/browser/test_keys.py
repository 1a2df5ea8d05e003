"""Every key of the table in a browser, and where keys do nothing."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from dashboard.keys import KEYS
from historyapp.core.entries import INTERRUPTION, DebugLog, ModelInput
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.browser.test_replay import choose_pace
from tests.browser.visits import VIEWPORT, page_of, show_only_step_numbers, sign_in
from tests.services.drafts import act, ask, draft, failed, ok


@pytest.fixture
def session(page: Page, server: str) -> Session:
    return record(sign_in(page.context, server))


def record(project: Project) -> Session:
    """Twelve steps. From 6, each kind of jump leads to a step of its own in both directions."""
    session = create_session(project, names={"title": "Many landmarks"})
    stopped = draft(ModelInput(content="[Request interrupted by user]", channel=INTERRUPTION))
    special = {
        1: [act("Edit", file_path="a.py", old_string="a", new_string="b"), ok()],
        6: [act("Edit", file_path="a.py", old_string="b", new_string="c"), ok()],
        7: [act("Edit", file_path="a.py", old_string="c", new_string="d"), ok()],
        2: [act("make"), failed()],
        8: [stopped, act("make"), failed()],
        3: [ask("go"), act("ls"), ok(outputs="needle")],
        5: [stopped, act("ls"), ok()],
        9: [ask("on"), act("ls"), ok(outputs="needle")],
        4: [draft(DebugLog(category="compaction", message="full")), act("ls"), ok()],
        10: [draft(DebugLog(category="compaction", message="full")), act("ls"), ok()],
    }
    for number in range(1, 13):
        append(project, session.pk, special.get(number, [act("ls"), ok()]))
        if number in (5, 11):
            append(project, session.pk, [act("dropped"), ok()])
            rewind(project, session.pk, Target(to_step=number))
    session.refresh_from_db()
    return session


LEADS = {
    "back": 5,
    "forward": 7,
    "next-error": 8,
    "previous-error": 2,
    "next-turn": 9,
    "previous-turn": 3,
    "next-interruption": 7,
    "previous-interruption": 4,
    "next-edit": 7,
    "previous-edit": 1,
    "next-compaction": 10,
    "previous-compaction": 4,
    "next-take": 11,
    "previous-take": 5,
    "first": 1,
    "last": 12,
    "find-next": 9,
    "find-previous": 3,
}


def step_is(page: Page, number: int) -> None:
    expect(page.locator("#step h2").first).to_have_text(f"Step {number}")


def expect_speed(page: Page, name: str) -> None:
    expect(page.get_by_label("Speed").locator("option:checked")).to_have_text(name)


def play(page: Page) -> None:
    expect(page.locator("[data-play]")).to_have_attribute("aria-pressed", "true")


def bookmarked(page: Page) -> None:
    expect(page.locator("#rows .bookmark-6")).to_be_visible()


def finds(page: Page) -> None:
    expect(page.locator("[data-search]")).to_be_focused()


def helps(page: Page) -> None:
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def close_help(page: Page) -> None:
    """The dialog keeps the focus, and so the keys, for some milliseconds after it is hidden."""
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.activeElement.closest('dialog')")


DOES: dict[str, Callable[[Page], None]] = {
    "play": play,
    "slower": lambda page: expect_speed(page, "×1"),
    "faster": lambda page: expect_speed(page, "×4"),
    "bookmark": bookmarked,
    "find": finds,
    "help": helps,
}


LEAVE_SIX = """async (keys) => {
    const view = document.querySelector("#step [data-at]").dataset;
    const pause = () => new Promise((done) => setTimeout(done, 10));
    const steps = [];
    for (const key of keys) {
        await send("go", { step: 6 });
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        for (let wait = 0; view.at === "6" && wait < 2000; wait++) await pause();
        steps.push(Number(view.at));
    }
    return steps;
}"""
"""The steps to which keys lead from step 6."""


def test_every_key_of_the_table_has_its_documented_effect(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=6&find=needle"))
    show_only_step_numbers(page)
    keys = [key for row in KEYS for key in row.keys]
    leading = [key for key in keys if key.action in LEADS]
    assert page.evaluate(LEAVE_SIX, [key.key for key in leading]) == [LEADS[key.action] for key in leading]
    page.evaluate("send('go', { step: 6 })")
    for key in (key for key in keys if key.action not in LEADS):
        choose_pace(page, speed="2", pace="step")
        page.keyboard.press("Space" if key.key == " " else key.key)
        DOES[key.action](page)
        page.keyboard.press("Space" if key.action == "play" else "Escape")
    expect_modifiers_and_fields_to_keep_their_keys(page)
    expect_keys_to_work_in_other_layouts(page)


def press(page: Page, key: str, code: str, *, shift: bool = False) -> None:
    """A key of a keyboard with another layout."""
    detail = {"key": key, "code": code, "shiftKey": shift, "bubbles": True}
    page.locator("body").dispatch_event("keydown", detail)


def expect_modifiers_and_fields_to_keep_their_keys(page: Page) -> None:
    """From step 6 to step 5."""
    for modifier in ("Control", "Alt", "Meta"):
        page.keyboard.press(f"{modifier}+e")
        page.keyboard.press(f"{modifier}+j")
    page.locator("[data-search]").press("j")
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    step_is(page, 5)


def expect_keys_to_work_in_other_layouts(page: Page) -> None:
    """From step 5."""
    press(page, "у", "KeyE")
    step_is(page, 8)
    press(page, "У", "KeyE", shift=True)
    step_is(page, 2)
    press(page, "п", "KeyG")
    step_is(page, 1)
    press(page, "/", "Digit7", shift=True)  # German
    finds(page)


def test_keys_can_be_pressed_quickly_and_turned_off_in_their_list(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=1"))
    expect_every_quick_key_to_act(page)
    page.keyboard.press("g")
    step_is(page, 1)
    page.keyboard.press(">")
    page.get_by_label("Pace", exact=True).select_option("turn by turn")
    expect_the_list_at_its_beginning(page)
    page.get_by_label("Use single-key shortcuts on this page").uncheck()
    close_help(page)
    page.keyboard.press("j")
    page.reload()
    expect_speed(page, "×2")  # choices stay
    expect(page.get_by_label("Pace", exact=True)).to_have_value("turn")
    page.keyboard.press("e")
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).not_to_be_focused()
    step_is(page, 1)
    page.locator("[data-help]").click()
    page.get_by_label("Use single-key shortcuts on this page").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    step_is(page, 2)


def expect_every_quick_key_to_act(page: Page) -> None:
    """From step 1. A jump without a target says so."""
    for key in "eu":
        page.keyboard.press(key)
    step_is(page, 3)
    page.keyboard.press("e")
    page.keyboard.press("g")
    step_is(page, 1)
    page.keyboard.press("G")
    step_is(page, 12)
    page.keyboard.press("c")
    expect(page.locator("#jump-note")).to_have_text("There is no later compaction by the agent.")
    step_is(page, 12)


def expect_the_list_at_its_beginning(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 600})
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_in_viewport()
    assert page.evaluate("document.getElementById('help').scrollTop") == 0
    page.set_viewport_size(VIEWPORT)


@pytest.mark.thorough
def test_without_scripts_a_jump_is_a_link(plain: Page, server: str) -> None:
    session = record(sign_in(plain.context, server))
    plain.goto(page_of(session, "?step=6"))
    plain.locator("a[data-jump=next-turn]").click()
    step_is(plain, 9)
    plain.go_back()
    plain.locator("a[data-jump=next-edit]").click()
    step_is(plain, 7)


def test_the_keys_of_the_overview_can_be_switched_off_move_between_lines_and_open_the_run(
    page: Page, session: Session
) -> None:
    overview = page_of(session, "/overview")
    page.goto(overview)
    page.keyboard.press("?")
    helps(page)
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).not_to_contain_text("play or pause")
    switch = page.get_by_label("Use single-key shortcuts on this page")
    switch.uncheck()
    close_help(page)
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('.findings')") is None
    page.get_by_role("button", name="Keyboard shortcuts").click()
    switch.check()
    close_help(page)
    lines = page.locator(".findings > li")
    page.keyboard.press("k")  # there is no previous line yet
    expect(lines.first.locator("a").first).to_be_focused()
    page.keyboard.press("j")
    second = lines.nth(1).locator("a").first
    expect(second).to_be_focused()
    address = second.get_attribute("href") or "?"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address}")
    for key, step in (("e", 2), ("G", 12), ("g", 1)):
        page.goto(overview)
        page.keyboard.press(key)
        step_is(page, step)
    page.goto(overview)
    page.keyboard.press("/")
    finds(page)
