"""The context panel in the browser: it follows the playhead, and its switches act at once."""

import re

import pytest
from playwright.sync_api import Page, Request, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, panel, record_session
from tests.examples import thorough


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 12)


def expect_context_after(page: Page, step: int) -> None:
    expect(panel(page).locator(".context-moment")).to_have_text(f"Context after step {step}")


def test_the_panel_stands_beside_the_step(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    step, context = page.locator("#step").bounding_box(), panel(page).bounding_box()
    assert step is not None
    assert context is not None
    assert context["x"] >= step["x"] + step["width"]
    assert context["y"] == step["y"]


@pytest.mark.thorough
def test_on_narrower_screens_it_lies_below_the_step(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1100, "height": 800})
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    expect_views_fit(page, 1100)
    step, context = page.locator("#step").bounding_box(), panel(page).bounding_box()
    assert step is not None
    assert context is not None
    assert context["y"] >= step["y"] + step["height"]


@pytest.mark.parametrize("width", [thorough(768), 360])
def test_on_narrow_screens_it_is_a_tab(page: Page, session: Session, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect(page.get_by_label("Policy")).to_be_hidden()
    page.get_by_text("Context", exact=True).first.click()
    expect_context_after(page, 5)
    expect_views_fit(page, width)


def expect_views_fit(page: Page, width: int) -> None:
    """Each view can be chosen, and the page is no wider than the screen."""
    for view in ("Diff", "Messages", "JSON", "Contents"):
        panel(page).get_by_text(view, exact=True).click()
        expect(panel(page).get_by_label(view, exact=True)).to_be_checked()
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_it_follows_the_playhead_and_keeps_its_switches(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?mode=what_if"))
    panel(page).get_by_label("Policy").select_option("masked")
    panel(page).get_by_text("Messages", exact=True).click()
    expect(panel(page).locator(".message").first).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Newest step").click()
    expect_context_after(page, 12)
    expect(panel(page).locator(".facts")).to_contain_text("masked")
    expect(panel(page).locator(".message").first).to_be_visible()


def test_quick_moves_are_answered_by_one_context(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/context?" in request.url:
            asked.append(request.url)

    page.on("request", note)
    with page.expect_response(re.compile(r"/context\?")):
        page.evaluate("for (let moves = 0; moves < 5; moves++) htmx.trigger('#step', 'htmx:afterSwap')")
    page.get_by_role("link", name="Next step").click()
    expect_context_after(page, 6)
    assert len(asked) == 2


def test_opening_a_fold_of_the_step_leaves_the_panel_alone(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    panel(page).locator(".context-moment").evaluate("heading => heading.dataset.mark = 'same'")
    page.get_by_role("link", name="more lines").click()
    expect(page.get_by_role("link", name="more lines")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    expect(panel(page).locator(".context-moment")).to_have_attribute("data-mark", "same")


def test_a_budget_too_small_is_mended_by_a_button(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5&mode=what_if"))
    expect_context_after(page, 5)
    panel(page).get_by_label("Policy").select_option("masked")
    panel(page).get_by_role("spinbutton", name="Budget").fill("3")
    button = panel(page).get_by_role("button", name=re.compile(r"Use [\d,]+ tokens"))
    smallest = button.inner_text().split()[1]
    button.click()
    field = panel(page).get_by_role("spinbutton", name="Budget")
    expect(field).to_have_value(smallest.replace(",", ""))
    expect(panel(page).locator("figcaption")).to_contain_text(f"/ {smallest} tokens")


def test_a_step_in_the_list_moves_the_playhead(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=8&mode=what_if"))
    panel(page).get_by_role("link", name="step 7", exact=True).click()
    expect(page.locator("#step h2").first).to_have_text("Step 7")
    expect_context_after(page, 7)


def test_the_ledger_opens_with_a_chart_that_leads_to_steps(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5&mode=what_if"))
    panel(page).get_by_text("Usage and cost").click()
    bars = panel(page).locator(".chart a")
    expect(bars).to_have_count(12)
    bars.nth(2).click()
    expect(page.locator("#step h2").first).to_have_text("Step 3")


def test_the_ledgers_chart_follows_the_playhead(page: Page, session: Session) -> None:
    long = record_session(session.project, 120)
    page.goto(page_of(long))
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step h2").first).to_have_text("Step 2")
    panel(page).get_by_text("Usage and cost").click()
    marked = panel(page).locator(".chart [aria-current]")
    expect(marked).to_have_attribute("data-step", "2")
    page.keyboard.press("ArrowRight")
    expect(marked).to_have_attribute("data-step", "3")
    page.keyboard.press("G")
    expect(marked).to_have_attribute("data-step", "120")
    expect(panel(page).locator("figcaption", has_text="Steps 101–120")).to_be_visible()
    panel(page).get_by_role("link", name="Earlier steps").click()
    expect(panel(page).locator("figcaption", has_text="Steps 1–100")).to_be_visible()
    expect(marked).to_have_count(0)
    expect(panel(page).locator("[data-chart-cursor]")).to_be_hidden()


@pytest.mark.thorough
def test_a_ledger_opened_later_shows_where_the_playhead_went(page: Page, session: Session) -> None:
    page.goto(page_of(record_session(session.project, 120)))
    page.keyboard.press("G")
    expect(page.locator("#step h2").first).to_have_text("Step 120")
    panel(page).get_by_text("Usage and cost").click()
    expect(panel(page).locator(".chart [aria-current]")).to_have_attribute("data-step", "120")


def test_recorded_comes_first_and_what_if_is_one_click_away(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    expect(panel(page).locator(".context-moment")).to_have_text("Before step 5")
    expect(panel(page).get_by_label("Policy")).to_be_hidden()
    panel(page).get_by_text("What if", exact=True).click()
    expect_context_after(page, 5)
    expect(panel(page).get_by_label("Policy")).to_be_visible()
    panel(page).get_by_text("Recorded", exact=True).click()
    expect(panel(page).locator(".context-moment")).to_have_text("Before step 5")


def test_the_address_holds_mode_and_terms_at_every_step(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    panel(page).get_by_text("What if", exact=True).click()
    panel(page).get_by_label("Policy").select_option("masked")
    expect(panel(page).locator(".facts").first).to_contain_text("masked")
    expect(page).to_have_url(re.compile(r"step=5&mode=what_if&policy=masked$"))
    page.get_by_role("link", name="Next step").click()
    expect_context_after(page, 6)
    expect(page).to_have_url(re.compile(r"step=6&mode=what_if&policy=masked$"))
    page.reload()
    expect_context_after(page, 6)
    expect(panel(page).get_by_label("Policy")).to_have_value("masked")
    panel(page).get_by_text("Recorded", exact=True).click()
    expect(page).to_have_url(re.compile(r"step=6$"))


def test_the_messages_of_a_request_open_in_the_panel(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=5"))
    panel(page).get_by_text("Messages of the request").click()
    expect(panel(page).locator(".saw-list .message").first).to_be_visible()
