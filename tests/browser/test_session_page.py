"""What people do on the session page."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.browser.visits import PRESS, choose, page_of, record_session
from tests.services.drafts import act, call, ok


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project)


def test_long_output_loads_when_it_is_opened(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    fold = page.get_by_role("link", name="more lines")
    expect(fold).to_contain_text("361 more lines")
    fold.click()
    expect(fold).to_have_count(0)
    assert page.locator("#step pre").all_inner_texts()[-1].count("a line") == 361


def test_a_tall_step_scrolls_in_its_pane_alone(page: Page, project: Project) -> None:
    session = create_session(project)
    ids = [str(number) for number in range(20)]
    append(project, session.pk, [call(*ids), *(ok(id, "a line\n" * 9) for id in ids)])
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(page_of(session))
    assert page.evaluate("document.getElementById('step').scrollHeight > innerHeight")
    assert page.evaluate("document.documentElement.scrollHeight") == 900


def test_raw_entries_load_when_they_are_opened(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=2"))
    page.get_by_text("Raw JSON").click()
    expect(page.locator("#step")).to_contain_text('"kind": "tool_results"')


def test_rewinding_shows_first_what_goes_and_can_be_undone(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("e")
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    expect(dialog).to_contain_text("This cuts off steps 4–6: 3 steps, 6 entries.")
    dialog.get_by_label("Reason").fill("the wrong way")
    dialog.get_by_label("Continue after step").fill("2")
    dialog.get_by_label("Continue after step").press("Tab")
    expect(dialog).to_contain_text("This cuts off steps 3–6: 4 steps, 8 entries.")
    dialog.get_by_role("button", name="Rewind to step 2").click()
    expect(page.get_by_text("Rewound: 4 steps cut off and kept as a take. “the wrong way”")).to_be_visible()
    expect(page.locator("#rows [data-step]")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#rows [data-step]")).to_have_count(6)


def test_a_rewind_goes_to_the_step_that_was_typed(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    field = dialog.get_by_label("Continue after step")
    expect(field).to_have_value("5")
    field.select_text()
    field.press_sequentially("2")
    dialog.get_by_role("button", name="Rewind to step").click(delay=PRESS)
    expect(page.get_by_text("Rewound: 4 steps cut off")).to_be_visible()
    expect(page.locator("#rows [data-step]")).to_have_count(2)


def test_what_a_dialog_announced_cannot_be_pressed_once_something_else_is_typed(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=5"))
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    page.route("**/rewinds?step=1", lambda route: None)
    dialog.get_by_label("Continue after step").fill("1")
    expect(dialog.get_by_role("button", name="Rewind to step 5")).to_be_disabled()


def test_a_failed_preview_can_be_retried(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    page.route("**/rewinds?step=1", lambda route: route.abort())
    dialog.get_by_label("Continue after step").fill("1")
    again = dialog.get_by_role("button", name="Try again")
    expect(again).to_be_enabled()
    again.click()
    expect(again).to_be_enabled()
    expect(again).to_have_count(1)
    page.unroute("**/rewinds?step=1")
    again.click()
    dialog.get_by_role("button", name="Rewind to step 1").click()
    expect(page.get_by_text("Rewound: 5 steps cut off")).to_be_visible()


def test_nothing_is_rewound_to_a_step_that_does_not_exist(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    field, button = dialog.get_by_label("Continue after step"), dialog.get_by_role("button")
    border = field.evaluate("(field) => getComputedStyle(field).borderColor")
    for typed in ("999", "-1", ""):
        field.clear()
        field.press_sequentially(typed)
        field.press("Enter")
        expect(button).to_be_disabled()
        expect(field).not_to_have_css("border-color", border)
        dialog.get_by_label("Reason").press("Enter")
        button.dispatch_event("click")
        field.fill("4")
        expect(dialog.get_by_role("button", name="Rewind to step 4")).to_be_enabled()
        expect(field).to_have_css("border-color", border)
    assert Session.objects.get(pk=session.pk).head == session.head


def test_a_dialog_is_left_by_cancel_and_escape(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    dialog = page.get_by_role("dialog", name="Rewind")
    for leave in ("Cancel", "Escape"):
        choose(page, "Rewind…")
        expect(dialog).to_be_visible()
        dialog.get_by_role("link", name="Cancel").click() if leave == "Cancel" else page.keyboard.press(leave)
        expect(dialog).to_be_hidden()
    expect(page.locator("#rows [data-step]")).to_have_count(6)


def test_a_fork_begins_at_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.locator("#rows [data-step='4']").click()
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    choose(page, "Fork")
    expect(page).not_to_have_url(re.compile(str(session.pk)))
    expect(page.locator(".facts").first).to_contain_text("fork of Repair the totals after step 4")
    expect(page.locator("#rows [data-step]")).to_have_count(4)


def test_a_take_opens_in_the_list_and_can_be_looked_at(
    page: Page, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("another_way"), ok()])
    page.goto(page_of(session))
    page.locator(".take summary", has_text="Take: 4 steps cut off").click()
    take = page.locator(".take")
    expect(take.locator(".row")).to_have_count(4)
    take.get_by_role("link", name="Open").click()
    expect(page.locator(".bar-past")).to_contain_text("You see the session as of position 13")
    expect(page.locator("#rows [data-step]")).to_have_count(6)
    page.get_by_role("link", name="Show the current session").click()
    expect(page.locator("#rows [data-step]")).to_have_count(3)


def test_renaming_happens_in_place(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.locator(".rename summary").click()
    page.get_by_label("Title").fill("A better title")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("A better title")


def test_exporting_downloads_a_file(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Markdown").click()
    assert download.value.suggested_filename.startswith("repair-the-totals")


def test_menus_close_when_something_else_is_pressed(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    menu = page.locator(".menu", has_text="Export")
    menu.locator("summary").click()
    expect(menu.get_by_role("link", name="Markdown")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Markdown")).to_be_hidden()
    menu.locator("summary").click()
    page.locator("#step h2").first.click()
    expect(menu.get_by_role("link", name="Markdown")).to_be_hidden()


def test_the_bar_about_a_rewind_is_dismissed_in_place(page: Page, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    page.goto(page_of(session))
    bar = page.get_by_text("Rewound: 4 steps cut off")
    page.get_by_role("button", name="Dismiss").click()
    expect(bar).to_have_count(0)
    page.reload()
    expect(page.locator("#step h2").first).to_have_text("Step 1")
    expect(bar).to_have_count(0)
    page.locator(".take summary").click()
    page.get_by_role("link", name="Undo…").click()
    page.get_by_role("button", name="Undo the rewind").click()
    expect(page.locator("#rows [data-step]")).to_have_count(6)
