"""Turns of the step list can be folded. They stay folded in the tab, and further rows are not loaded."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import change_session, create_session
from tests.browser.visits import page_of, sign_in
from tests.services.drafts import act, ask, failed, ok


@pytest.fixture
def project(page: Page, server: str) -> Project:
    page.set_viewport_size({"width": 1440, "height": 1200})  # links to more rows have to be in view
    return sign_in(page.context, server)


@pytest.fixture
def session(project: Project) -> Session:
    """Three turns of 4, 120 and 3 steps."""
    session = create_session(project)
    for text, steps in (("first", 4), ("second", 120), ("third", 3)):
        append(project, session.pk, [ask(text), *[draft for _ in range(steps) for draft in (act(), ok())]])
    change_session(project, session.pk, {"status": "finished"})
    return session


def fold_button(page: Page, turn: int) -> None:
    page.get_by_role("button", name=f"Steps of turn {turn}", exact=True).click()


def test_a_folded_turn_stays_folded_and_its_rows_are_loaded_when_it_unfolds(
    page: Page, session: Session
) -> None:
    rows = page.locator("#rows")
    page.goto(page_of(session, "?step=1"))
    fold_button(page, 2)
    expect(rows.locator("[data-step='5']")).to_be_hidden()
    expect(rows.locator("[data-step='4']")).to_be_visible()
    expect(rows.locator("[data-step='127']")).to_be_attached()
    assert rows.locator("[data-step='60']").count() == 0, "its other rows are not needed"
    page.goto(page_of(session, "?step=126"))
    expect(rows.locator(".turn[data-turn='2']")).to_be_attached()
    expect(rows.locator("[data-step='4']")).to_be_attached()
    assert rows.locator("[data-step='60']").count() == 0, "earlier rows are skipped up to its head"
    expect(rows.locator("[data-step='122']")).to_be_hidden()
    page.locator("[data-jump] input[name=step]").fill("110")
    page.keyboard.press("Enter")  # the playhead unfolds the turn that it comes to
    expect(rows.locator("[data-step='110']")).to_be_visible()
    expect(rows.locator("[data-step='110']")).to_have_attribute("aria-current", "step")
    expect(rows.locator("[data-step='90']")).to_be_visible()  # rows that were left out before it
    expect(rows.locator("[aria-current]")).to_have_attribute("data-step", "110")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    fold_button(page, 2)
    expect(rows.locator("[data-step='127']")).to_be_attached()
    fold_button(page, 2)
    expect(rows.locator("[data-step='29']")).to_be_visible()

    page.get_by_role("button", name="Fold all").click()
    expect(rows.locator(".turn")).to_have_count(3)
    expect(rows.locator(".row:visible")).to_have_count(0)
    page.keyboard.press("G")
    expect(rows.locator("[data-step='127']")).to_be_visible()
    expect(rows.locator("[data-step='127']")).to_have_attribute("aria-current", "step")
    page.get_by_role("button", name="Unfold all").click()
    expect(rows.locator("[data-step='124']")).to_be_visible()
    expect(rows.locator("[aria-current]")).to_have_attribute("data-step", "127")


def test_rows_that_an_agent_adds_belong_to_their_turn(page: Page, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("first"), act(), ok(), act(), ok()])
    page.goto(page_of(session, "?step=1"))
    append(project, session.pk, [act("ls"), failed(), ask("second"), act(), ok()])
    expect(page.locator("#rows .turn[data-turn='2']")).to_be_visible()
    expect(page.locator("#rows .turn[data-turn='1']")).to_contain_text("1 failed")
    expect(page.locator("#rows .turn")).to_have_count(2)


def test_folding_all_turns_keeps_the_place_of_the_playhead(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1440, "height": 600})
    rows = page.locator("#rows")
    page.goto(page_of(session, "?step=60"))
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(rows.locator("[data-holds-step]")).to_have_attribute("data-turn", "2")
    expect(rows.locator("[data-holds-step]")).to_be_in_viewport()
    page.get_by_role("button", name="Unfold all", exact=True).click()
    expect(rows.locator("[data-step='60']")).to_be_in_viewport(ratio=1)
    expect(rows.locator("[data-step='60']")).to_have_attribute("aria-current", "step")
    expect(rows.locator("[data-holds-step]")).to_have_count(0)
