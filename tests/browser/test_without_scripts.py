"""Everything but replay works without JavaScript."""

import re

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from historyapp import enqueue
from historyapp.models import Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from tests.api.compressing import carry_out
from tests.browser.visits import choose, page_of, record_session, sign_in
from tests.services.drafts import act, ok


@pytest.fixture
def session(plain: Page, server: str) -> Session:
    return record_session(sign_in(plain.context, server), 60)


def expect_step(page: Page, number: int) -> None:
    expect(page.locator("#step h2").first).to_have_text(f"Step {number}")


def test_moving_and_rewinding_work_by_links_and_forms_and_controls_that_need_scripts_are_hidden(
    plain: Page, server: str
) -> None:
    plain.goto(page_of(record_session(sign_in(plain.context, server), 12)))
    for name in ("Play", "×8", "Keys"):
        expect(plain.get_by_role("button", name=name)).to_be_hidden()
    expect(plain.get_by_label("Position of the playhead")).to_be_hidden()
    plain.get_by_role("link", name="Next step").click()
    expect_step(plain, 2)
    plain.get_by_label("step", exact=True).fill("11")
    plain.get_by_role("button", name="Go").click()
    expect_step(plain, 11)
    plain.locator(".timeline-chart a").nth(7).locator("rect").first.click()
    expect_step(plain, 8)
    choose(plain, "Rewind…")
    expect(plain.locator("main")).to_contain_text("This cuts off steps 9–12")
    plain.get_by_label("Continue after step").fill("5")
    plain.get_by_role("button", name="Preview").click()
    expect(plain.locator("main")).to_contain_text("This cuts off steps 6–12")
    plain.get_by_role("button", name="Rewind to step 5").click()
    expect_step(plain, 5)


@pytest.mark.thorough
def test_errors_rows_and_earlier_steps_are_links(plain: Page, session: Session) -> None:
    plain.goto(page_of(session, "?step=41"))
    plain.get_by_role("link", name="Next error").click()
    expect_step(plain, 42)
    plain.locator("#rows [data-step='37']").click()
    expect_step(plain, 37)
    plain.get_by_role("link", name="Earlier steps").click()
    expect_step(plain, 1)


@pytest.mark.thorough
def test_tags_a_note_and_a_score_are_set_by_a_form(plain: Page, session: Session) -> None:
    plain.goto("/?q=repair")
    plain.get_by_role("link", name="Edit tags, note and score").click()
    plain.get_by_label("Add tags").fill("to read")
    plain.get_by_label("Note on the session").fill("Kept it.")
    plain.get_by_role("button", name="Save").click()
    expect(plain).to_have_url(re.compile(r"/\?q=repair$"))
    expect(plain.locator(".sessions tbody tr")).to_contain_text("to read")
    expect(plain.locator(".sessions tbody tr")).to_contain_text("Kept it.")


@pytest.mark.thorough
def test_chosen_sessions_are_changed_by_a_form(plain: Page, session: Session) -> None:
    other = record_session(session.project, 1, title="Audit the ledgers")
    plain.goto("/")
    for one in (session, other):
        plain.get_by_label(f"Select {one}").check()
    plain.get_by_placeholder("Tag", exact=True).fill("to read")
    plain.get_by_role("button", name="Add tag").click()
    expect(plain.get_by_text("2 of 2 sessions tagged.")).to_be_visible()
    plain.get_by_role("link", name="Back to the sessions").click()
    expect(plain.locator(".sessions .tag")).to_have_text(["to read", "to read"])
    plain.get_by_label(f"Select {session}").check()
    plain.get_by_role("button", name="Compress…").click()
    plain.get_by_role("button", name="Compress 1 session").click()
    expect(plain.get_by_text("1 under way")).to_be_visible()
    carry_out(str(session.compression_runs.get().pk))
    plain.get_by_role("link", name="Show progress").click()
    expect(plain.get_by_text("1 of 1 session compressed.")).to_be_visible()
    plain.goto("/")
    for one in (session, other):
        plain.get_by_label(f"Select {one}").check()
    plain.get_by_role("button", name="Compare").click()
    expect(plain).to_have_url(re.compile(r"/compare\?a=.*&b="))


@pytest.mark.thorough
def test_folds_and_raw_entries_open_as_pages(plain: Page, session: Session) -> None:
    plain.goto(page_of(session, "?step=5"))
    plain.get_by_role("link", name="more lines").click()
    expect(plain.locator("pre.text")).to_contain_text("a line")
    plain.get_by_role("link", name="Step 5 of").click()
    plain.get_by_text("Raw JSON").click()
    plain.get_by_role("link", name="Open").click()
    expect(plain.locator("main")).to_contain_text('"kind": "model_output"')


@pytest.mark.thorough
def test_undo_and_fork_are_forms(plain: Page, session: Session) -> None:
    rewind(session.project, session.pk, Target(to_step=30))
    plain.goto(page_of(session))
    plain.get_by_role("button", name="Undo").click()
    expect_step(plain, 60)
    choose(plain, "Fork")
    expect(plain.locator(".facts").first).to_contain_text("after step 60")


@pytest.mark.thorough
def test_the_bar_about_a_rewind_is_dismissed_by_a_form(plain: Page, session: Session) -> None:
    rewind(session.project, session.pk, Target(to_step=10))
    plain.goto(page_of(session, "?step=4"))
    expect(plain.get_by_text("Rewound: 50 steps")).to_be_visible()
    plain.get_by_role("button", name="Dismiss").click()
    expect_step(plain, 4)
    expect(plain.get_by_text("Rewound: 50 steps")).to_have_count(0)


@pytest.mark.thorough
def test_takes_are_links(plain: Page, session: Session) -> None:
    rewind(session.project, session.pk, Target(to_step=10))
    append(session.project, session.pk, [act(), ok()])
    plain.goto(page_of(session))
    plain.locator(".take summary", has_text="Take: 50 steps").click()
    plain.get_by_role("link", name="Open").click()
    expect_step(plain, 11)


@pytest.mark.thorough
def test_the_list_is_searched_by_its_button(plain: Page, session: Session) -> None:
    plain.goto("/")
    plain.get_by_placeholder("Title, agent or tag").fill("zebra")
    plain.get_by_role("button", name="Search").click()
    expect(plain.get_by_role("heading", name="No sessions found")).to_be_visible()
    expect(plain).to_have_url(re.compile(r"\?q=zebra"))


@pytest.mark.thorough
def test_compressing_works_by_forms(plain: Page, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "wake", lambda run: None)
    session = record_session(sign_in(plain.context, server), 4)
    plain.goto(reverse("compress", args=[session.pk]))
    plain.get_by_role("radio", name="Simple extract").check()
    plain.get_by_label("To step").fill("3")
    plain.get_by_role("button", name="Estimate").click()
    plain.get_by_role("button", name="Compress steps 1–3").click()
    expect(plain.get_by_text("selecting steps…")).to_be_visible()
    carry_out(session.compression_runs.get().pk)
    expect(plain.locator(".run-state")).to_contain_text("3 of 3")  # reloads automatically
    plain.locator("#items").get_by_role("link", name="3", exact=True).click()
    expect(plain.get_by_text("did step 3")).to_be_visible()
    plain.locator(".switch label", has_text="Original").click()
    expect(plain.get_by_text("did step 3")).to_be_hidden()
