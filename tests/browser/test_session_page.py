"""What people do on the session page."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.rewinds import Target, rewind
from tests.browser.visits import PRESS, choose, page_of, record_session


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project)


def test_long_output_and_raw_entries_load_when_they_are_opened_and_scroll_in_their_pane_alone(
    page: Page, session: Session
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(page_of(session, "?step=5"))
    fold = page.get_by_role("link", name="more lines")
    expect(fold).to_contain_text("361 more lines")
    fold.click()
    expect(fold).to_have_count(0)
    assert page.locator("#step pre").all_inner_texts()[-1].count("a line") == 361
    page.get_by_text("Raw JSON").click()
    expect(page.locator("#step")).to_contain_text('"kind": "tool_results"')
    assert page.evaluate("document.getElementById('step').scrollHeight > innerHeight")
    assert page.evaluate("document.documentElement.scrollHeight") == 900


def test_rewinding_shows_first_what_goes_and_can_be_undone(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("e")
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    choose(page, "Rewind…")
    dialog = page.get_by_role("dialog", name="Rewind")
    field = dialog.get_by_label("Continue after step")
    expect(field).to_have_value("3")
    expect(dialog).to_contain_text("This cuts off steps 4–6: 3 steps, 6 entries.")
    page.route("**/rewinds?step=1", lambda route: route.abort())
    field.fill("1")
    again = dialog.get_by_role("button", name="Try again")  # a preview that fails can be retried
    expect(again).to_be_enabled()
    again.click()
    expect(again).to_be_enabled()
    expect(again).to_have_count(1)
    page.unroute("**/rewinds?step=1")
    again.click()
    expect(dialog.get_by_role("button", name="Rewind to step 1")).to_be_enabled()
    expect(dialog).to_contain_text("This cuts off steps 2–6: 5 steps, 10 entries.")
    dialog.get_by_label("Reason").fill("the wrong way")
    field.select_text()
    field.press_sequentially("2")
    dialog.get_by_role("button", name="Rewind to step").click(delay=PRESS)
    expect(page.get_by_text("Rewound: 4 steps cut off and kept as a take. “the wrong way”")).to_be_visible()
    expect(page.locator("#rows [data-step]")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#rows [data-step]")).to_have_count(6)


def test_a_dialog_can_be_left_and_refuses_what_it_has_not_announced(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    dialog = page.get_by_role("dialog", name="Rewind")
    for leave in ("Cancel", "Escape"):
        choose(page, "Rewind…")
        expect(dialog).to_be_visible()
        dialog.get_by_role("link", name="Cancel").click() if leave == "Cancel" else page.keyboard.press(leave)
        expect(dialog).to_be_hidden()
    choose(page, "Rewind…")
    field, button = dialog.get_by_label("Continue after step"), dialog.get_by_role("button")
    expect(field).to_have_value("5")
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
    page.route("**/rewinds?step=1", lambda route: None)  # out of date once this is typed
    field.fill("1")
    expect(dialog.get_by_role("button", name="Rewind to step 4")).to_be_disabled()
    assert Session.objects.get(pk=session.pk).head == session.head


def test_a_take_is_looked_at_and_replayed_as_of_then_and_its_rewind_undone(
    page: Page, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    page.goto(page_of(session))
    bar = page.get_by_text("Rewound: 4 steps cut off")
    expect(bar).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()
    expect(bar).to_have_count(0)
    page.locator(".take summary", has_text="Take: 4 steps cut off").click()
    take = page.locator(".take")
    expect(take.locator(".row")).to_have_count(4)
    take.get_by_role("link", name="Open").click()
    expect(page.locator(".bar-past")).to_contain_text("You see the session as of position 13")
    expect(page.locator("#rows [data-step]")).to_have_count(6)
    page.keyboard.press("G")
    expect(page).to_have_url(re.compile(rf"\?step=6&as_of={session.head}$"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#step")).to_contain_text("text 5")
    page.get_by_role("link", name="Show the current session").click()
    expect(page.locator("#rows [data-step]")).to_have_count(2)
    expect(bar).to_have_count(0)
    page.locator(".take summary").click()
    page.get_by_role("link", name="Undo…").click()
    page.get_by_role("button", name="Undo the rewind").click()
    expect(page.locator("#rows [data-step]")).to_have_count(6)


def test_its_head_has_menus_that_close_an_export_a_title_and_a_fork_at_the_playhead(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session))
    menu = page.locator(".menu", has_text="Export")
    markdown = menu.get_by_role("link", name="Markdown")
    menu.locator("summary").click()
    expect(markdown).to_be_visible()
    page.keyboard.press("Escape")
    expect(markdown).to_be_hidden()
    menu.locator("summary").click()
    page.locator("#step h2").first.click()
    expect(markdown).to_be_hidden()
    menu.locator("summary").click()
    with page.expect_download() as download:
        markdown.click()
    assert download.value.suggested_filename.startswith("repair-the-totals")
    page.locator("#rows [data-step='4']").click()
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    choose(page, "Fork")
    expect(page).not_to_have_url(re.compile(str(session.pk)))
    expect(page.locator(".facts").first).to_contain_text("fork of Repair the totals after step 4")
    expect(page.locator("#rows [data-step]")).to_have_count(4)
    page.locator(".rename summary").click()
    page.get_by_label("Title").fill("A better title")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("A better title")
