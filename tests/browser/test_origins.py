"""Names in a step's calls lead to where they first stood, with scripts and without."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.core.entries import ModelInput
from historyapp.models import Session
from historyapp.services.append import append
from tests.browser.visits import page_of, record_session, sign_in
from tests.services.drafts import act, draft, ok


@pytest.fixture
def session(page: Page, server: str) -> Session:
    return _with_names(record_session(sign_in(page.context, server)))


def _with_names(session: Session) -> Session:
    drafts = [act("search"), ok(outputs="one\nsrc/app.py\n"), act("read_file", path="src/app.py"), ok()]
    append(session.project, session.pk, [*drafts, act("read_file", path="src/guess.py"), ok()])
    return session


def test_a_mark_opens_a_box_that_leads_to_the_first_place(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=8"))
    expect(page.locator(".origin-mark")).to_have_count(0)
    page.get_by_text("Where did it get this from?").click()
    mark = page.locator(".origin-mark").first
    expect(mark).to_have_text("src/app.py")
    mark.click()
    box = page.locator("#origin-box")
    expect(box).to_contain_text("First in a result of step 7, line 2")
    box.get_by_text("Every place").click()
    expect(box.locator(".origin-places li")).to_have_count(2)
    box.get_by_role("link", name="step 7").first.click()
    expect(page.locator(".step-head h2")).to_contain_text("7")


def test_a_name_that_colours_divide_is_one_mark(page: Page, session: Session) -> None:
    change = {"old_str": "points = 1\n", "new_str": "points = contact.playerClass + 1\n"}
    append(session.project, session.pk, [act("edit_file", path="src/app.py", **change), ok()])
    page.goto(page_of(session, "?step=10"))
    page.get_by_text("Where did it get this from?").click()
    mark = page.locator(".origin-mark[data-of='contact.playerClass']")
    expect(mark).to_have_text("contact.playerClass")
    assert mark.locator("*").count() > 1
    mark.click()
    expect(page.locator("#origin-box")).to_contain_text("from nowhere")


def test_what_was_compacted_away_is_marked(page: Page, session: Session) -> None:
    summary = draft(ModelInput(channel="compaction", content="Nothing of note so far."))
    append(session.project, session.pk, [summary, act("read_file", path="src/app.py"), ok()])
    page.goto(page_of(session, "?step=10"))
    page.get_by_text("Where did it get this from?").click()
    mark = page.locator(".origin-mark.is-gone")
    mark.click()
    box = page.locator("#origin-box")
    expect(box).to_contain_text("The model no longer saw it: it had been compacted away")


def test_the_next_step_is_marked_by_itself(page: Page, session: Session) -> None:
    page.goto(page_of(session, "?step=8"))
    page.get_by_text("Where did it get this from?").click()
    expect(page.locator(".origin-mark").first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".origin-mark.is-nowhere").first).to_have_text("src/guess.py")
    expect(page.locator(".origins")).not_to_have_attribute("open", "")


@pytest.mark.thorough
def test_without_scripts_it_is_a_page(plain: Page, server: str) -> None:
    session = _with_names(record_session(sign_in(plain.context, server)))
    plain.goto(page_of(session, "?step=8"))
    plain.get_by_text("Where did it get this from?").click()
    plain.locator(".origins-body a").click()
    expect(plain.locator(".origin")).to_contain_text("First in a result of step 7")
    plain.get_by_role("link", name="Every place").click()
    expect(plain.locator(".origin-places li")).to_have_count(2)
