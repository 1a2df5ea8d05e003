"""Compression as a person sees it: a button, a bar that moves, summaries, and better ones by hand."""

import re
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connection
from playwright.sync_api import Locator, Page, expect

from historyapp import enqueue
from historyapp.models import CompressionRun, Project, Session, Summary
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.summaries import SummaryText, add_summary
from tests.api.compressing import carry_out
from tests.browser.visits import PRESS, page_of, record_session, sign_in

EXTRACT = RunRequest("simple_extract", 1, 6)


def _carry_out(run: UUID) -> None:
    try:
        carry_out(run)
    finally:
        connection.close()


class Worker:
    """Carries out runs in threads, as those of a Celery worker are. It loads no strategy, nor spaCy."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.begins = True

    def wake(self, run: UUID) -> None:
        if self.begins:
            self._threads.append(threading.Thread(target=_carry_out, args=(run,)))
            self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    worker = Worker()
    monkeypatch.setattr(enqueue, "wake", worker.wake)
    yield worker
    worker.join()


@pytest.fixture
def project(page: Page, server: str, worker: Worker) -> Project:
    return sign_in(page.context, server)


@pytest.fixture
def session(project: Project) -> Session:
    return record_session(project, 8)


def run_page(run: CompressionRun) -> str:
    return f"/sessions/{run.session_id}/compressions/{run.pk}"


def test_pressing_compress_starts_a_run_whose_bar_reaches_its_end(page: Page, session: Session) -> None:
    page.goto(page_of(session))
    page.get_by_role("link", name="Compress", exact=True).click()
    dialog = page.get_by_role("dialog", name="Compress")
    expect(dialog.get_by_role("button", name="Compress steps 1–4")).to_be_visible()
    dialog.get_by_role("radio", name="Simple extract").check()
    expect(dialog.locator(".model-field")).to_be_hidden()
    expect_compress_to_wait_for_the_estimate(page, dialog)
    dialog.get_by_label("To step").press_sequentially("3")  # pressed before the new estimate has come
    dialog.get_by_role("button", name=re.compile("^Compress")).click(delay=PRESS)
    expect(page).to_have_url(re.compile("/compressions/"))
    expect(page.locator(".run")).to_contain_text("steps 1–3")
    expect(page.locator(".run-state")).to_contain_text("3 of 3")
    expect(page.locator(".run-state")).to_contain_text("succeeded")
    expect(page.locator("#items tbody tr")).to_have_count(3)
    expect(page.locator(".watch")).to_have_count(0)
    page.locator("#items").get_by_role("link", name="3", exact=True).click()
    expect(page.get_by_role("radio", name="Summary")).to_be_checked()
    expect(page.locator("#rows .mark")).to_have_count(3)


def expect_compress_to_wait_for_the_estimate(page: Page, dialog: Locator) -> None:
    """Compress is disabled until the estimate for the chosen steps arrives."""
    page.route("**/compressions/new?*to_step=2*", lambda route: None)
    dialog.get_by_label("To step").fill("2")
    expect(dialog.get_by_role("button", name="Compress steps 1–4")).to_be_disabled()
    dialog.get_by_label("To step").fill("")
    expect(dialog.get_by_role("button", name="Compress steps 1–4")).to_be_enabled()


@pytest.mark.thorough
def test_the_bar_moves_while_the_page_is_open(page: Page, session: Session, worker: Worker) -> None:
    run = start_run(session.project, session.pk, EXTRACT).run
    page.goto("/compressions")
    expect(page.get_by_text("selecting steps…")).to_be_visible()
    carry_out(run.pk, limit=2)
    expect(page.locator(".run-state")).to_contain_text("2 of 6")
    bar = page.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "2")
    carry_out(run.pk, limit=2)
    expect(bar).to_have_attribute("value", "4")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    carry_out(run.pk)
    expect(page.locator(".run-state")).to_contain_text("6 of 6")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_run_lists_its_summaries_and_is_cancelled_resumed_and_retried(
    page: Page, session: Session, worker: Worker
) -> None:
    run = start_run(session.project, session.pk, EXTRACT).run
    page.goto(run_page(run))
    expect(page.get_by_text("Summaries appear here once")).to_be_visible()
    carry_out(run.pk, limit=1)
    expect(page.locator("#items tbody tr")).to_have_count(6)
    expect(page.locator("#items .state-waiting")).to_have_count(5)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".note")).to_contain_text("Cancelled with 1 of 6 summaries made")
    worker.begins = False
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    carry_out(run.pk, failing=(2, 3))
    expect(page.locator("#items .error")).to_have_count(2)
    worker.begins = True
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page.locator("#items tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Retry 2 failed").click()
    expect(page.locator(".run-state")).to_contain_text("succeeded")
    expect(page.locator("#items tbody tr")).to_have_count(6)
    expect(page.locator("#items .error")).to_have_count(0)


def test_a_step_switches_to_its_summary_which_can_be_edited_by_hand(page: Page, session: Session) -> None:
    for step in (1, 2):
        add_summary(session.project, session.pk, (step, step), SummaryText(f"step {step} in short"))
    page.goto(page_of(session))
    original, short = page.locator("#step .original"), page.get_by_text("step 1 in short")
    expect(original).to_be_visible()
    expect(short).to_be_hidden()
    page.locator(".switch label", has_text="Summary").click()
    expect(original).to_be_hidden()
    expect(short).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("step 2 in short")).to_be_visible()
    expect(original).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(original).to_be_visible()  # step 3 has no summary
    expect_typing_to_move_nothing(page)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("step 2 in short")).to_be_visible()
    page.get_by_role("link", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit the summary of step 2")
    expect(dialog.get_by_label("Text")).to_have_value("step 2 in short")
    dialog.get_by_label("Text").fill("better words")
    dialog.get_by_role("button", name="Save").click()
    sections = page.locator(".part-summary")
    expect(sections).to_have_count(2)
    expect(sections.first).to_contain_text("better words")
    expect(sections.last).to_contain_text("replaced")
    assert Summary.objects.filter(strategy="manual").count() == 3
    page.locator(".switch label", has_text="Original").click()
    expect(original).to_be_visible()


def expect_typing_to_move_nothing(page: Page) -> None:
    page.get_by_role("link", name="Write a summary…").click()
    dialog = page.get_by_role("dialog", name="Summary of step 3")
    dialog.get_by_label("Text").press_sequentially("g e G ?")
    dialog.get_by_role("link", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#step h2").first).to_have_text("Step 3")


@pytest.mark.thorough
def test_two_strategies_are_compared_and_one_is_used(page: Page, session: Session, worker: Worker) -> None:
    page.goto(f"/sessions/{session.pk}/comparisons/new?from_step=1&to_step=2")
    sides = page.locator("fieldset.choices")
    sides.nth(0).get_by_role("radio", name="Simple extract").check()
    sides.nth(1).get_by_role("radio", name="Table of steps").check()
    page.get_by_role("button", name="Run both").click()
    expect(page.locator(".row-cell pre")).to_have_count(3)
    assert not Summary.objects.exists()
    page.locator(".side").nth(1).get_by_role("button", name="Use this strategy").click()
    expect(page.get_by_role("heading", name="Compression of steps 1–2")).to_be_visible()
    expect(page.locator(".run-state")).to_contain_text("1 of 1")
    assert Summary.objects.get().strategy == "structured"
