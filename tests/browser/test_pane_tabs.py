"""On narrow screens, list, step and context are three tabs below the timeline."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from tests.browser.visits import page_of, record_session, sign_in, step_in_view
from tests.dashboard.long_sessions import long_session

PANES = {"Steps": ".steps", "Step": "#step", "Context": ".context-pane"}


@pytest.fixture
def session(project: Project) -> Session:
    return long_session(project, 60)


def open_narrow(page: Page, session: Session, query: str = "") -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(page_of(session, query))


def choose_tab(page: Page, name: str) -> None:
    page.get_by_text(name, exact=True).first.click()


def expect_only(page: Page, name: str) -> None:
    for other, pane in PANES.items():
        expect(page.locator(pane)).to_be_visible(visible=other == name)


def test_one_pane_at_a_time_is_shown_on_a_narrow_screen_above_controls_in_one_row(
    page: Page, session: Session
) -> None:
    open_narrow(page, session)
    expect_only(page, "Step")
    names = ("Previous step", "Next step", "Next error")
    boxes = [page.get_by_role("link", name=name).bounding_box() for name in names]
    boxes.append(page.get_by_role("button", name="Play").bounding_box())
    assert len({round(box["y"]) for box in boxes if box}) == 1
    assert all(box and box["x"] + box["width"] <= 360 for box in boxes)

    choose_tab(page, "Context")
    expect_only(page, "Context")
    page.locator("[data-jump] input[name=step]").fill("40")
    page.keyboard.press("Enter")
    expect(page.locator("[data-at='40']")).to_be_attached()
    expect_only(page, "Context")  # also while the playhead moves
    choose_tab(page, "Steps")
    expect_only(page, "Steps")
    expect(page.locator("#rows [data-step='40']")).to_be_in_viewport()
    page.locator("#rows [data-step='39']").click()  # a row leads to the tab of the step
    expect(page.locator("[data-at='39']")).to_be_attached()
    expect_only(page, "Step")
    choose_tab(page, "Context")
    choose_tab(page, "Step")
    expect_only(page, "Step")


def test_on_a_small_laptop_step_and_context_are_tabs_beside_the_list(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(page_of(session))
    for name, other in (("Step", "Context"), ("Context", "Step")):
        choose_tab(page, name)
        expect(page.locator(PANES[other])).to_be_hidden()
        box = page.locator(PANES[name]).bounding_box()
        assert box is not None
        assert box["height"] > 768 / 3, name
        page.locator("#rows a[data-step]").nth(3).click()
        expect(page.locator(PANES[name])).to_be_visible()
    expect(page.locator(PANES["Steps"])).to_be_visible()
    page.evaluate("localStorage.setItem('width-of-list', 600)")  # set on a larger screen
    page.reload()
    tabs, pane = (page.locator(name).bounding_box() for name in (".pane-tabs", PANES["Step"]))
    assert tabs
    assert pane
    assert tabs["x"] == pane["x"] == 600


@pytest.mark.thorough
def test_a_wide_screen_shows_all_panes_and_each_kind_of_control_in_one_row(
    page: Page, session: Session
) -> None:
    page.set_viewport_size({"width": 1440, "height": 930})
    page.goto(page_of(session))
    for pane in PANES.values():
        expect(page.locator(pane)).to_be_visible()
    expect(page.locator(".pane-tabs")).to_be_hidden()
    for row in (".transport", ".chips", ".tab-row"):
        box = page.locator(row).bounding_box()
        assert box is not None
        assert box["height"] < 50, row


@pytest.mark.thorough
def test_the_tabs_work_without_scripts(plain: Page, server: str) -> None:
    session = record_session(sign_in(plain.context, server), 20)
    open_narrow(plain, session)
    choose_tab(plain, "Steps")
    expect_only(plain, "Steps")
    plain.locator("#rows [data-step='7']").click()
    expect_only(plain, "Step")
    assert step_in_view(plain) == 7
