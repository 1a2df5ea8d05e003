"""The palette in a browser: keys, focus, what it opens, use without scripts, and findings of axe."""

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import AXE, page_of, record_session, sign_in

HOSTILE = '<img src=x onerror="document.title=1"> "quoted" totals'


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project)


def palette(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    expect(dialog.get_by_role("option").first).to_be_visible()
    return dialog


def search(page: Page, text: str, result: str) -> Locator:
    """Puts a text into the palette and waits until a result is selected."""
    dialog = palette(page)
    page.keyboard.insert_text(text)
    expect(dialog.locator("[aria-selected=true]")).to_contain_text(result)
    return dialog


def step_is(page: Page, number: int) -> None:
    expect(page.locator("#step h2").first).to_have_text(f"Step {number}")


def test_the_palette_opens_by_button_and_key_and_opens_a_session_moves_the_playhead_and_forks(
    page: Page, project: Project
) -> None:
    session = record_session(project, title=HOSTILE)
    page.goto("/")
    page.locator("[data-palette]").click()
    page.keyboard.insert_text("quoted totals")
    option = page.get_by_role("option", name=HOSTILE)
    expect(option).to_be_visible()
    assert page.locator("#palette img").count() == 0
    option.click()
    expect(page).to_have_url(re.compile(str(session.pk)))
    page.evaluate("window.stayed = true")
    expect_keys_to_open_and_close_it(page)
    page.keyboard.type("4")
    page.keyboard.press("Enter")  # before the results have come
    step_is(page, 4)
    search(page, "previous error", "Go to the previous error or likely failure")
    page.keyboard.press("Enter")
    step_is(page, 3)
    search(page, "rewind…", "Rewind…")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Rewind").get_by_label("Continue after step")).to_have_value("3")
    assert page.evaluate("window.stayed")
    page.keyboard.press("Escape")
    search(page, "fork here", "after step 3")
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(re.compile(str(session.pk)))
    expect(page.locator(".facts").first).to_contain_text("after step 3")


def expect_keys_to_open_and_close_it(page: Page) -> None:
    """At step 1. At the end it is open."""
    page.locator("#step").focus()
    dialog = palette(page)
    page.keyboard.type("jeG?")
    expect(dialog.get_by_role("combobox")).to_have_value("jeG?")
    for key in ("Escape", "Control+k"):
        page.keyboard.press(key)
        expect(dialog).to_be_hidden()
        expect(page.locator("#step")).to_be_focused()
        step_is(page, 1)
        palette(page)


@pytest.mark.thorough
def test_a_theme_is_posted(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=4"))
    search(page, "dark", "Theme: dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(re.compile(r"step=4"))


HOLD_RESPONSES = """() => {
  const { fetch } = window;
  const released = new Promise((release) => { window.release = release; });
  window.fetch = async (...request) => {
    const response = await fetch(...request);
    document.body.dataset.held = "";
    await released;
    return response;
  };
}"""
TYPE_ON = """field => {
  field.value = "nothing-like-this";
  field.dispatchEvent(new Event("input"));
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  window.release();
}"""


def test_arrows_select_in_a_circle_axe_finds_no_barrier_and_enter_ignores_outdated_results(
    page: Page, project: Project
) -> None:
    record_session(project, 1)
    page.goto("/")
    page.evaluate(AXE)
    dialog = palette(page)
    assert _barriers(page) == []
    field, options = dialog.get_by_role("combobox"), dialog.get_by_role("option")
    last = options.count() - 1
    for key, chosen in (("ArrowDown", 1), ("ArrowUp", 0), ("ArrowUp", last), ("ArrowDown", 0)):
        page.keyboard.press(key)
        expect(options.nth(chosen)).to_have_attribute("aria-selected", "true")
        expect(dialog.locator("[aria-selected=true]")).to_have_count(1)
        expect(field).to_have_attribute(
            "aria-activedescendant", options.nth(chosen).get_attribute("id") or ""
        )
        expect(field).to_be_focused()
    page.keyboard.insert_text("nothing-like")
    expect(page.locator("#palette [role=status]")).to_have_text("1 result")  # to search in all steps
    assert _barriers(page) == []
    page.evaluate(HOLD_RESPONSES)
    page.keyboard.insert_text("-that")
    expect(page.locator("body[data-held]")).to_have_count(1)
    field.evaluate(TYPE_ON)
    expect(page).to_have_url(re.compile(r"/search\?q=nothing-like-this$"))


RUN_AXE = """async (options) => {
  const { violations } = await axe.run("#palette", { resultTypes: ["violations"], ...options });
  return violations;
}"""


def _barriers(page: Page) -> list[Any]:
    """What axe finds in the light scheme; in the dark one it only measures contrast."""
    violations: list[Any] = page.evaluate(RUN_AXE, {})
    page.emulate_media(color_scheme="dark")
    violations += page.evaluate(RUN_AXE, {"runOnly": ["color-contrast"]})
    page.emulate_media(color_scheme="light")
    return violations


@pytest.mark.thorough
def test_without_scripts_the_button_leads_to_a_page(plain: Page, server: str) -> None:
    session = record_session(sign_in(plain.context, server))
    plain.goto(page_of(session, "?step=2"))
    plain.locator("[data-palette]").click()
    plain.get_by_role("searchbox").fill("5")
    plain.get_by_role("button", name="Search", exact=True).click()
    plain.get_by_role("link", name="Step 5").click()
    step_is(plain, 5)
    plain.goto(f"/palette?session={session.pk}&step=5&q=fork+here")
    plain.get_by_role("button", name="Fork here").click()
    expect(plain.locator(".facts").first).to_contain_text("after step 5")
