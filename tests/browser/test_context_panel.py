"""The context panel in the browser: it follows the playhead, and its switches act at once."""

import re

import pytest
from playwright.sync_api import Page, Request, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, panel, record_session
from tests.dashboard.long_sessions import long_session
from tests.examples import thorough


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 12)


def expect_context_after(page: Page, step: int) -> None:
    expect(panel(page).locator(".context-moment")).to_contain_text(f"After step {step}:")


def test_the_panel_is_loaded_once_for_each_move_not_for_a_fold_and_again_after_an_outage(
    page: Page, session: Session
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    step, context = page.locator("#step").bounding_box(), panel(page).bounding_box()
    assert step is not None
    assert context is not None
    assert context["x"] >= step["x"] + step["width"]
    assert context["y"] == step["y"]
    requested_urls: list[str] = []

    def note(request: Request) -> None:
        if "/context?" in request.url:
            requested_urls.append(request.url)

    page.on("request", note)
    page.get_by_role("link", name="more lines").click()
    expect(page.get_by_role("link", name="more lines")).to_have_count(0)
    with page.expect_response(re.compile(r"/context\?")):
        page.evaluate("for (let moves = 0; moves < 5; moves++) htmx.trigger('#step', 'htmx:afterSwap')")
    panel(page).get_by_role("link", name="step 4", exact=True).click()
    expect(page.locator("#step h2").first).to_have_text("Step 4")
    expect_context_after(page, 4)
    page.remove_listener("request", note)
    assert len(requested_urls) == 2, "one for the quick moves, one for the last, and none for the fold"
    page.route("**/context?*", lambda route: route.abort())
    page.keyboard.press("ArrowRight")
    lost = page.get_by_text("Not up to date: the server cannot be reached.")
    expect(lost).to_be_visible()
    for _ in range(2):
        page.locator("[data-play]").click()  # a replay has a note of its own
    expect(page.locator("[data-context-waits]")).to_be_hidden()
    expect(lost).to_be_visible()
    page.unroute("**/context?*")
    page.get_by_role("link", name="more lines").click()  # any other request
    expect_context_after(page, 5)
    expect(lost).to_be_hidden()


@pytest.mark.thorough
def test_on_narrower_screens_the_panel_is_below_the_step(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1100, "height": 1000})  # in lower ones it is a tab
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    expect_views_fit(page, 1100)
    step, context = page.locator("#step").bounding_box(), panel(page).bounding_box()
    assert step is not None
    assert context is not None
    assert context["y"] >= step["y"] + step["height"]


@pytest.mark.parametrize("width", [thorough(768), 360])
def test_on_narrow_screens_the_panel_is_a_tab(page: Page, session: Session, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect(page.get_by_label("Policy")).to_be_hidden()
    page.get_by_text("Context", exact=True).first.click()
    expect_context_after(page, 5)
    expect_views_fit(page, width)
    expect_a_button_to_fix_a_budget_that_is_too_small(page)


def expect_views_fit(page: Page, width: int) -> None:
    """Each view can be chosen, and the page is no wider than the screen."""
    for view in ("Diff", "Messages", "JSON", "Contents"):
        panel(page).get_by_text(view, exact=True).click()
        expect(panel(page).get_by_label(view, exact=True)).to_be_checked()
        assert page.evaluate("document.documentElement.scrollWidth") == width


def expect_a_button_to_fix_a_budget_that_is_too_small(page: Page) -> None:
    panel(page).get_by_label("Policy").select_option("masked")
    panel(page).get_by_role("spinbutton", name="Budget").fill("3")
    button = panel(page).get_by_role("button", name=re.compile(r"Use [\d,]+ tokens"))
    smallest = button.inner_text().split()[1]
    button.click()
    field = panel(page).get_by_role("spinbutton", name="Budget")
    expect(field).to_have_value(smallest.replace(",", ""))
    expect(panel(page).locator("figcaption")).to_contain_text(f"/ {smallest} tokens")


def test_the_ledgers_chart_leads_to_steps_and_pages_and_follows_the_playhead(
    page: Page, project: Project
) -> None:
    session = long_session(project, 120)
    page.goto(page_of(session))
    panel(page).get_by_text("Usage and cost").click()
    bars = panel(page).locator(".chart a")
    expect(bars).to_have_count(100)
    bars.nth(2).click()
    expect(page.locator("#step h2").first).to_have_text("Step 3")
    marked = panel(page).locator(".chart [aria-current]")
    expect(marked).to_have_attribute("data-step", "3")
    page.keyboard.press("G")
    expect(marked).to_have_attribute("data-step", "120")
    expect(panel(page).locator("figcaption", has_text="Steps 101–120")).to_be_visible()
    panel(page).get_by_role("link", name="Earlier steps").click()
    expect(panel(page).locator("figcaption", has_text="Steps 1–100")).to_be_visible()
    expect(marked).to_have_count(0)
    expect(panel(page).locator("[data-chart-cursor]")).to_be_hidden()
    page.goto(page_of(session, "/ledger?step=1"))
    page.get_by_role("link", name="Later steps").click()
    expect(page.locator("figcaption", has_text="steps 101–120")).to_be_visible()


@pytest.mark.thorough
def test_a_ledger_opened_later_shows_the_step_of_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(record_session(session.project, 120)))
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 120")
    panel(page).get_by_text("Usage and cost").click()
    expect(panel(page).locator(".chart [aria-current]")).to_have_attribute("data-step", "120")


def test_the_panel_opens_with_recorded_and_what_if_keeps_its_choices(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    expect(panel(page).locator(".context-moment")).to_have_text("Before step 5: the request that led to it")
    expect(panel(page).get_by_label("Policy")).to_be_hidden()
    expect(panel(page).get_by_role("heading", name="What the model saw", exact=True)).to_be_visible()
    panel(page).get_by_text("Messages of the request").click()
    expect(panel(page).locator(".saw-list .message").first).to_be_visible()
    expect(panel(page).get_by_label("What if after the step")).not_to_be_checked()
    panel(page).get_by_text("What if", exact=True).click()
    expect_context_after(page, 5)
    expect(panel(page).get_by_role("heading", name="What the model would see")).to_be_visible()
    panel(page).get_by_label("Policy").select_option("masked")
    expect(panel(page).locator(".facts").first).to_contain_text("masked")
    expect(page).to_have_url(re.compile(r"step=5&mode=what_if&policy=masked$"))
    panel(page).get_by_text("Messages", exact=True).click()
    expect(panel(page).locator(".message").first).to_be_visible()
    page.get_by_role("link", name="Next step").click()
    expect_context_after(page, 6)
    expect(panel(page).locator(".facts")).to_contain_text("masked")
    expect(panel(page).locator(".message").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"step=6&mode=what_if&policy=masked&view=messages$"))
    page.reload()
    expect_context_after(page, 6)
    expect(panel(page).get_by_label("Policy")).to_have_value("masked")
    panel(page).get_by_text("Recorded", exact=True).click()
    expect(panel(page).locator(".context-moment")).to_contain_text("Before step 6")
    expect(page).to_have_url(re.compile(r"step=6(&view=messages)?$"))


def test_messages_stay_open_while_the_playhead_moves_and_after_a_reload(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=9"))
    messages = panel(page).locator(".saw-list .message")
    panel(page).get_by_text("Messages of the request").click()
    expect(messages.first).to_be_visible()
    pane = panel(page)
    pane.evaluate("pane => pane.scrollTop = pane.scrollHeight")
    scrolled = pane.evaluate("pane => pane.scrollTop")
    assert scrolled > 100
    page.keyboard.press("ArrowRight")
    expect(pane.locator(".context-moment")).to_contain_text("Before step 10")
    expect(messages.last).to_contain_text("9")
    assert pane.evaluate("pane => pane.scrollTop") > scrolled - 100
    page.reload()
    expect(messages.first).to_be_visible()
    pane.get_by_text("Messages of the request").click()
    expect(messages.first).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(pane.locator(".context-moment")).to_contain_text("Before step 9")
    expect(pane.locator(".saw-messages[open]")).to_have_count(0)
