"""Choosing sessions of the list, and what is done with them."""

import json
import zipfile

from playwright.sync_api import Page, expect

from historyapp.models import BulkAction, Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from tests.browser.visits import record_session
from tests.services.drafts import act


def five(project: Project) -> list[Session]:
    """Five sessions, newest first, as in the list."""
    made = [record_session(project, 1, title=f"run {number}") for number in range(5)]
    return made[::-1]


def boxes(page: Page) -> list[bool]:
    return [box.is_checked() for box in page.locator("input[name=session]").all()]


def test_all_none_and_ranges_are_chosen(page: Page, project: Project) -> None:
    five(project)
    page.goto("/")
    bar = page.get_by_role("form", name="Selected sessions")
    expect(bar).to_be_hidden()
    found = page.locator("input[name=session]")
    found.nth(1).check()
    expect(bar).to_contain_text("1 selected")
    found.nth(3).click(modifiers=["Shift"])
    assert boxes(page) == [False, True, True, True, False]
    found.nth(2).click(modifiers=["Shift"])
    assert boxes(page) == [False, True, False, False, False]
    page.get_by_label("Select all sessions on this page").check()
    assert all(boxes(page))
    expect(bar).to_contain_text("5 selected")
    page.get_by_role("button", name="Clear selection").click()
    assert not any(boxes(page))
    expect(bar).to_be_hidden()


def test_a_row_stays_chosen_when_its_forks_are_opened(page: Page, project: Project) -> None:
    parent = record_session(project, 2, title="Audit the ledgers")
    fork(project, parent.pk, at_step=1, title="Audit them again")
    page.goto("/")
    box = page.get_by_label("Select Audit the ledgers")
    box.check()
    page.get_by_role("link", name="1 fork").click()
    expect(page.get_by_label("Select Audit them again")).not_to_be_checked()
    expect(box).to_be_checked()
    expect(page.get_by_role("form", name="Selected sessions")).to_contain_text("1 selected")


def test_two_chosen_sessions_offer_a_comparison(page: Page, project: Project) -> None:
    newest, other, *_ = five(project)
    page.goto("/")
    compare = page.get_by_role("button", name="Compare")
    for number, is_offered in ((0, False), (1, True), (2, False)):
        page.locator("input[name=session]").nth(number).check()
        expect(compare).to_be_visible(visible=is_offered)
    page.locator("input[name=session]").nth(2).uncheck()
    compare.click()
    expect(page).to_have_url(f"/compare?a={newest.pk}&b={other.pk}")


def test_the_choice_stays_while_the_list_grows_and_what_is_done_is_shown(
    page: Page, project: Project
) -> None:
    sessions = five(project)
    page.goto("/")
    page.get_by_label("Select run 3").check()
    page.get_by_label("Select run 1").check()
    page.locator("h1").click()
    append(project, create_session(project, names={"title": "new"}).pk, [act()])
    expect(page.locator(".sessions .title")).to_have_count(6)
    expect(page.get_by_label("Select run 3")).to_be_checked()
    expect(page.get_by_label("Select new")).not_to_be_checked()
    page.get_by_placeholder("Tag", exact=True).fill("to read")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator("#bulk-result")).to_contain_text("2 of 2 sessions tagged.")
    page.locator("h1").click()
    expect(page.locator(".sessions .tag")).to_have_text(["to read", "to read"])
    expect(page.get_by_label("Select run 1")).to_be_checked()
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator("#bulk-result")).to_contain_text("2 of 2 sessions archived.")
    page.locator("h1").click()
    expect(page.locator(".sessions .title")).to_have_count(4)
    expect(page.get_by_role("form", name="Selected sessions")).to_be_hidden()
    assert Session.objects.get(pk=sessions[1].pk).status == "archived"


def test_a_missing_tag_is_said_and_compressing_asks_first(page: Page, project: Project) -> None:
    record_session(project, 20)
    page.goto("/")
    page.locator("input[name=session]").check()
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator("#notice")).to_contain_text("Enter a tag")
    page.get_by_role("button", name="Compress…").click()
    result = page.locator("#bulk-result")
    expect(result).to_contain_text("Compress 1 session")
    expect(result).to_contain_text("$0")
    result.get_by_label("Strategy").select_option("Simple extract")
    expect(result.get_by_label("Strategy")).to_have_value("simple_extract")
    assert not BulkAction.objects.exists()
    result.get_by_role("button", name="Compress 1 session").click()
    expect(result).to_contain_text("1 under way")
    result.get_by_role("button", name="Cancel").click()
    expect(result).to_contain_text("1 cancelled")


def test_chosen_sessions_are_downloaded_as_one_file(page: Page, project: Project) -> None:
    five(project)
    page.goto("/")
    page.get_by_label("Select run 3").check()
    page.get_by_label("Select run 1").check()
    page.get_by_label("Export format").select_option("Markdown")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    with zipfile.ZipFile(download.value.path()) as found:
        index = json.loads(found.read("index.json"))
    assert [file["title"] for file in index["files"]] == ["run 3", "run 1"]
