"""Names in a step's calls link to their first place, with scripts and without."""

import re

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

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


def test_the_overview_indexes_the_run_and_names_the_files(page: Page, session: Session) -> None:
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        complaints.extend([message.text] if message.type in ("error", "warning") else [])

    page.on("console", note)
    page.goto(f"{page_of(session)}/overview")
    named = page.locator(".unseen-names [hx-get]")
    expect(named).to_contain_text("file-1.txt in step 1")
    page.evaluate("htmx.trigger('#overview', 'reload')")
    expect(named).to_contain_text("file-1.txt in step 1")
    page.remove_listener("console", note)
    assert complaints == []
    named.get_by_role("link").last.click()
    expect(page.locator("#step [data-at]").first).to_be_visible()


def test_each_step_has_marks_that_open_a_box_with_a_link_to_the_first_place(
    page: Page, session: Session
) -> None:
    change = {"old_str": "points = 1\n", "new_str": "points = contact.playerClass + 1\n"}
    summary = draft(ModelInput(channel="compaction", content="Nothing of note so far."))
    edit = [act("edit_file", path="src/app.py", **change), ok()]
    append(session.project, session.pk, [*edit, summary, act("read_file", path="src/app.py"), ok()])
    mark, box = page.locator(".origin-mark"), page.locator("#origin-box")
    page.goto(page_of(session, "?step=8"))
    expect(mark).to_have_count(0)
    page.get_by_text("Where do these names come from?").click()
    mark.filter(has_text="src/app.py").first.click()
    expect(box).to_contain_text("First in a result of step 7, line 2")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")  # the next step is marked without another click
    expect(page.locator(".origin-mark.is-nowhere").first).to_have_text("src/guess.py")
    expect(page.locator(".origins")).not_to_have_attribute("open", "")
    page.keyboard.press("ArrowRight")
    coloured = page.locator(".origin-mark[data-of='contact.playerClass']")
    expect(coloured).to_have_text("contact.playerClass")
    assert coloured.locator("*").count() > 1
    coloured.click()
    expect(box).to_contain_text("from nowhere")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.locator(".origin-mark.is-gone").click()
    expect(box).to_contain_text("The model could no longer see it: it had been compacted away")
    box.get_by_text("Every place").click()
    expect(box.locator(".origin-places li")).to_have_count(4)
    expect(box.get_by_role("link", name="step 7").first).to_have_attribute("href", re.compile("step=7"))


@pytest.mark.thorough
def test_without_scripts_the_box_is_a_page(plain: Page, server: str) -> None:
    session = _with_names(record_session(sign_in(plain.context, server)))
    plain.goto(page_of(session, "?step=8"))
    plain.get_by_text("Where do these names come from?").click()
    plain.locator(".origins-body a").click()
    expect(plain.locator(".origin")).to_contain_text("First in a result of step 7")
    plain.get_by_role("link", name="Every place").click()
    expect(plain.locator(".origin-places li")).to_have_count(2)


_STRICT = """
sessionStorage['playhead-origins'] = '1';
const split = Text.prototype.splitText;
Text.prototype.splitText = function (at) { return this.isConnected ? undefined : split.call(this, at); };
delete Range.prototype.extractContents;
"""
"""Fails where a script changes a long text within the page, or with ranges."""


def test_at_most_2000_names_of_a_step_are_marked_outside_of_the_page(page: Page, session: Session) -> None:
    plain = dict.fromkeys("abc", "a_b " * 900)
    coloured = {"path": "x.py", "old_str": "", "new_str": "a.b " * 500}
    append(session.project, session.pk, [act("search", **plain), ok(), act("edit_file", **coloured), ok()])
    page.add_init_script(_STRICT)
    page.goto(page_of(session, "?step=10"))
    marks = page.locator(".origin-mark")
    expect(marks).to_have_count(2000)
    page.keyboard.press("ArrowRight")
    names = page.locator(".origin-mark[data-of='a.b']")
    expect(names).to_have_count(500)
    again = "body => body.dispatchEvent(new Event('htmx:afterSwap', { bubbles: true }))"
    page.locator(".origins-body").evaluate(again)
    expect(names).to_have_count(500)
    expect(names.last).to_have_text("a.b")
    assert page.locator(".action").inner_text().count("a.b") == 500


def test_names_are_looked_for_in_200_000_places_of_a_step(page: Page, session: Session) -> None:
    names = " ".join("1" * length for length in range(3, 61))
    append(session.project, session.pk, [act("search", a=names, b="1" * 3500 + " 111"), ok()])
    page.add_init_script("sessionStorage['playhead-origins'] = '1'")
    page.goto(page_of(session, "?step=10"))
    expect(page.locator(".origin-mark")).to_have_count(58)
