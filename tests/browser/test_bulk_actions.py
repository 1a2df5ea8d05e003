"""Sessions are chosen in the list and changed together."""

import json
import zipfile

import pytest
from playwright.sync_api import Page, expect

from dashboard.views import bulk_actions
from historyapp.models import BulkAction, Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from tests.browser.visits import record_session
from tests.services.drafts import act

NOTE_CHOICE_AT_SWAP = """
    window.chosenAtSwap = [];
    document.addEventListener("htmx:afterSwap", () => {
      window.chosenAtSwap.push(document.querySelectorAll("input[name=session]:checked").length);
    });
"""


@pytest.fixture(autouse=True)
def _a_slow_machine_leaves_nothing_to_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE_SECONDS", 60)


def boxes(page: Page) -> list[bool]:
    checked: list[bool] = page.locator("input[name=session]").evaluate_all(
        "(all) => all.map((box) => box.checked)"
    )
    return checked


def test_sessions_are_chosen_by_range_compared_and_exported_as_one_file(page: Page, project: Project) -> None:
    parent, *_ = [record_session(project, 1, title=f"run {number}") for number in range(5)]
    fork(project, parent.pk, at_step=1, title="its fork")
    page.goto("/")
    bar = page.get_by_role("form", name="Selected sessions")
    compare = page.get_by_role("button", name="Compare")
    expect(bar).to_be_hidden()
    boxes_of_sessions = page.locator("input[name=session]")
    boxes_of_sessions.nth(1).check()
    expect(bar).to_contain_text("1 selected")
    expect(compare).to_be_hidden()
    boxes_of_sessions.nth(3).click(modifiers=["Shift"])
    assert boxes(page) == [False, True, True, True, False]
    expect(compare).to_be_hidden()
    boxes_of_sessions.nth(2).click(modifiers=["Shift"])
    assert boxes(page) == [False, True, False, False, False]
    page.get_by_label("Select all sessions on this page").check()
    assert all(boxes(page))
    expect(bar).to_contain_text("5 selected")
    page.get_by_role("button", name="Clear selection").click()
    assert not any(boxes(page))
    expect(bar).to_be_hidden()
    page.get_by_label("Select run 3").check()
    page.get_by_label("Select run 0").check()
    expect(compare).to_be_visible()
    page.get_by_role("link", name="1 fork").click()  # opens its row below
    expect(page.locator(".sessions .title").nth(5)).to_have_text("its fork")
    expect(page.locator("input[name=session]:checked")).to_have_count(2)  # after the new rows settle
    assert boxes(page) == [False, True, False, False, True, False]
    page.get_by_label("Export format").select_option("Markdown")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    with zipfile.ZipFile(download.value.path()) as file:
        index = json.loads(file.read("index.json"))
    assert [one["title"] for one in index["files"]] == ["run 3", "run 0"]


def test_the_sessions_of_later_pages_are_selected_too(
    page: Page, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.views.sessions.PAGE", 2)
    for number in range(5):
        create_session(project, names={"title": f"run {number}", "agent": "a" if number else "b"})
    page.set_viewport_size({"width": 1280, "height": 300})
    page.route("**/?*cursor=*", lambda route: route.abort())  # the further pages are not loaded
    page.goto("/?agent=a")
    bar = page.get_by_role("form", name="Selected sessions")
    everything = bar.get_by_role("button", name="Select all 4")
    page.locator("#results input[name=session]").first.check()
    expect(everything).to_be_hidden()
    page.get_by_label("Select all sessions on this page").check()
    everything.click()
    expect(bar).to_contain_text("4 selected")
    expect(everything).to_be_hidden()
    page.locator("#results input[name=session]").first.uncheck()
    expect(bar).to_contain_text("3 selected")
    page.get_by_placeholder("Tag", exact=True).fill("chosen")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator("#bulk-result")).to_contain_text("3 of 3 sessions tagged.")
    tagged = Session.objects.filter(tags_text__contains="chosen")
    assert {session.title for session in tagged} == {"run 1", "run 2", "run 3"}
    page.get_by_role("button", name="Clear selection").click()
    expect(bar).to_be_hidden()
    page.get_by_label("Select all sessions on this page").check()
    expect(bar).to_contain_text("2 selected")


def test_the_choice_stays_while_the_list_grows_and_the_progress_is_shown(
    page: Page, project: Project
) -> None:
    for title in ("old", "other", "older"):
        record_session(project, 8, title=title)
    page.goto("/")
    titles, result = page.locator(".sessions .title"), page.locator("#bulk-result")
    bar = page.get_by_role("form", name="Selected sessions")
    for title in ("old", "older"):
        page.get_by_label(f"Select {title}", exact=True).check()
    page.locator("h1").click()  # the list waits while it has the focus
    page.evaluate(NOTE_CHOICE_AT_SWAP)
    append(project, create_session(project, names={"title": "new"}).pk, [act()])
    expect(titles).to_have_text(["new", "older", "other", "old"])
    assert page.evaluate("window.chosenAtSwap") == [2]  # no click can find a list without its choice
    assert boxes(page) == [False, True, False, True]
    expect(bar).to_contain_text("2 selected")

    page.get_by_role("button", name="Add tag").click()
    expect(page.locator("#notice")).to_contain_text("Enter a tag")
    page.get_by_placeholder("Tag", exact=True).fill("to read")
    page.get_by_role("button", name="Add tag").click()
    expect(result).to_contain_text("2 of 2 sessions tagged.")
    page.locator("h1").click()
    expect(page.locator(".sessions .tag")).to_have_text(["to read", "to read"])
    page.get_by_label("Select old", exact=True).uncheck()
    compress_and_cancel(page)
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(result).to_contain_text("1 of 1 session archived.")
    page.locator("h1").click()
    expect(titles).to_have_text(["new", "other", "old"])
    expect(bar).to_be_hidden()
    assert Session.objects.get(status="archived").title == "older"


def compress_and_cancel(page: Page) -> None:
    """A form asks for confirmation. A started action can be cancelled."""
    before = BulkAction.objects.count()
    page.get_by_role("button", name="Compress…").click()
    result = page.locator("#bulk-result")
    expect(result).to_contain_text("Compress 1 session")
    expect(result).to_contain_text("$0")
    result.get_by_label("Strategy").select_option("Simple extract")
    expect(result.get_by_label("Strategy")).to_have_value("simple_extract")
    assert BulkAction.objects.count() == before
    result.get_by_role("button", name="Compress 1 session").click()
    expect(result).to_contain_text("1 under way")
    result.get_by_role("button", name="Cancel").click()
    expect(result).to_contain_text("1 cancelled")
