"""What people do on the session page."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import PRESS, choose, page_of, record_session


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project)


def test_long_output_and_raw_entries_load_menus_open_and_close_and_a_pane_keeps_its_width(
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
    # The pane scrolls, not the page.
    assert page.evaluate("document.getElementById('step').scrollHeight > innerHeight")
    assert page.evaluate("document.documentElement.scrollHeight") == 900

    menu = page.locator(".menu", has_text="Export")
    markdown = menu.get_by_role("link", name="Markdown")
    menu.locator("summary").click()
    expect(markdown).to_be_visible()
    page.keyboard.press("Escape")
    expect(markdown).to_be_hidden()
    menu.locator("summary").click()
    page.locator("h1").click()
    expect(markdown).to_be_hidden()
    menu.locator("summary").click()
    with page.expect_download() as download:
        markdown.click()
    assert download.value.suggested_filename.startswith("repair-the-totals")
    page.locator("#rows [data-step='4']").click()
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    fork = page.locator(".actions form", has_text="Fork")
    expect(fork.locator("input[name=step]")).to_have_value("4")
    cost = page.locator("nav.tabs").get_by_role("link", name="Cost")
    expect(cost).to_have_attribute("href", re.compile(r"\?step=4$"))
    expect_a_pane_to_keep_its_width(page)


def expect_a_pane_to_keep_its_width(page: Page) -> None:
    handle = page.get_by_role("separator", name="Width of the step list")
    box = handle.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(500, box["y"] + 100)
    page.mouse.up()
    expect(page.locator(".steps")).to_have_css("width", "500px")
    page.reload()
    expect(page.locator(".steps")).to_have_css("width", "500px")
    handle.press("ArrowLeft")
    expect(page.locator(".steps")).to_have_css("width", "484px")


def test_rewinding_previews_the_cut_steps_and_keeps_them_as_a_take(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.keyboard.press("e")
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    dialog = page.get_by_role("dialog", name="Rewind")
    field = dialog.get_by_label("Continue after step")
    choose(page, "Rewind…")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    choose(page, "Rewind…")
    expect(field).to_have_value("3")
    expect(dialog).to_contain_text("This cuts off steps 4–6: 3 steps, 6 entries.")
    expect_an_invalid_step_to_be_refused(dialog, field)
    retry_a_preview(page, dialog, field)
    assert Session.objects.get(pk=session.pk).head == session.head

    dialog.get_by_label("Reason").fill("the wrong way")
    field.fill("2")
    dialog.get_by_role("button", name="Rewind to step").click(delay=PRESS)
    bar = page.get_by_text("Rewound: 4 steps cut off and kept as a take. “the wrong way”")
    expect(bar).to_be_visible()
    expect(page.locator("#rows [data-step]")).to_have_count(2)
    page.get_by_role("button", name="Dismiss").click()
    expect(bar).to_have_count(0)
    take = page.locator(".take")
    take.locator("summary", has_text="Take: 4 steps cut off").click()
    expect(take.locator(".row")).to_have_count(4)
    take.get_by_role("link", name="Open").click()
    expect(page.locator(".bar-past")).to_contain_text(
        "You are viewing the session as it was up to step 6 (position 13)"
    )
    expect(page.locator("#rows [data-step]")).to_have_count(6)
    page.keyboard.press("G")  # moving stays in the past
    expect(page).to_have_url(re.compile(rf"\?step=6&as_of={session.head}$"))
    expect(page.locator("#step h2").first).to_have_text("Step 6")


def expect_an_invalid_step_to_be_refused(dialog: Locator, field: Locator) -> None:
    button = dialog.get_by_role("button")
    border = field.evaluate("(field) => getComputedStyle(field).borderColor")
    for typed in ("999", ""):
        field.fill(typed)
        field.press("Enter")
        expect(button).to_be_disabled()
        expect(field).not_to_have_css("border-color", border)
    dialog.get_by_label("Reason").press("Enter")
    button.dispatch_event("click")


def retry_a_preview(page: Page, dialog: Locator, field: Locator) -> None:
    """A preview that fails can be retried. Meanwhile the older one is out of date."""
    page.route("**/rewinds?step=1", lambda route: route.abort())
    field.fill("1")
    again = dialog.get_by_role("button", name="Try again")
    expect(again).to_be_enabled()
    expect(dialog.get_by_role("button", name="Rewind to step 3")).to_be_disabled()
    again.click()
    expect(again).to_be_enabled()
    expect(again).to_have_count(1)
    page.unroute("**/rewinds?step=1")
    again.click()
    expect(dialog.get_by_role("button", name="Rewind to step 1")).to_be_enabled()
    expect(dialog).to_contain_text("This cuts off steps 2–6: 5 steps, 10 entries.")
