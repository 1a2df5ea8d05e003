"""What people do on the list of sessions, and on their way there."""

import json
import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import FilePayload, Page, expect

from historyapp.models import Membership, Project
from historyapp.services.append import append
from historyapp.services.keys import create_sign_in_link
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.browser.visits import record_session
from tests.services.drafts import act

BASELINE = """(element) => {
    const mark = document.createElement("span");
    mark.style.display = "inline-block";
    const words = document.createElement("span");
    element.lastChild.replaceWith(words);
    words.append(mark, "x");
    return mark.getBoundingClientRect().bottom;
}"""


def test_a_link_signs_in_once(page: Page) -> None:
    user = User.objects.create_user("alice")
    Membership.objects.create(project=Project.objects.create(name="p"), user=user)
    path = f"/sign-in/{create_sign_in_link(user)}"
    page.goto(path)
    page.get_by_role("button", name="Sign in").press("Enter")
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    page.locator(".masthead summary").last.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(path)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("has been used or is too old")).to_be_visible()


@pytest.mark.thorough
def test_typing_filters_the_list(page: Page, project: Project) -> None:
    record_session(project, 1, title="Repair the invoices")
    record_session(project, 1, title="Audit the ledgers")
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("ledg")
    expect(page.locator(".sessions .title")).to_have_text(["Audit the ledgers"])
    expect(page).to_have_url(re.compile(r"\?q=ledg"))
    expect(page.get_by_placeholder("Title, agent or tag")).to_be_focused()


def test_the_list_grows_while_agents_record(page: Page, project: Project) -> None:
    record_session(project, 2, title="Repair the invoices")
    page.goto("/")
    expect(page.locator(".sessions .title")).to_have_count(1)
    session = record_session(project, 3, title="Audit the ledgers")
    expect(page.locator(".sessions .title")).to_have_text(["Audit the ledgers", "Repair the invoices"])
    append(project, session.pk, [act("look")])
    expect(page.locator(".sessions tbody tr").first.locator("td.number").first).to_have_text("4")


def test_who_is_at_work_appears_and_leaves(page: Page, project: Project) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    session = create_session(project, names={"title": "Audit the ledgers"})
    append(project, session.pk, [act("look")])
    at_work = page.get_by_role("region", name="Running now")
    expect(at_work).to_contain_text("Audit the ledgers")
    expect(at_work).to_contain_text("step 1 is running: look")
    change_session(project, session.pk, {"status": "finished"})
    expect(at_work).to_have_count(0)


def test_forks_open_under_their_parent(page: Page, project: Project) -> None:
    parent = record_session(project, 3, title="Audit the ledgers")
    fork(project, parent.pk, at_step=1, title="Audit them again")
    page.goto("/")
    expect(page.locator(".sessions .title")).to_have_text(["Audit the ledgers"])
    page.get_by_role("link", name="1 fork").click()
    expect(page.locator(".sessions .title")).to_have_text(["Audit the ledgers", "Audit them again"])
    page.get_by_role("link", name="1 fork").click()
    expect(page.locator(".sessions .title")).to_have_text(["Audit them again"])


def test_choosing_filters_the_list_and_is_kept_in_the_address(page: Page, project: Project) -> None:
    record_session(project, 3, title="one error")
    record_session(project, 1, title="flawless")
    page.goto("/")
    page.locator(".facets").get_by_role("link", name="with errors 1", exact=True).click()
    expect(page.locator(".sessions .title")).to_have_text(["one error"])
    page.reload()
    expect(page.locator(".sessions .title")).to_have_text(["one error"])
    page.get_by_role("link", name="with errors remove").click()
    expect(page.locator(".sessions .title")).to_have_count(2)


def test_typing_keeps_what_is_chosen_and_counts_again(page: Page, project: Project) -> None:
    for title in ("Audit the ledgers", "Repair the invoices"):
        create_session(project, names={"title": title, "agent": "fixer"})
    create_session(project, names={"title": "Audit the books", "agent": "writer"})
    page.goto("/?agent=fixer")
    page.get_by_placeholder("Title, agent or tag").fill("audit")
    expect(page.locator(".sessions .title")).to_have_text(["Audit the ledgers"])
    expect(page.locator(".facets").get_by_role("link", name="writer 1")).to_be_visible()
    expect(page).to_have_url(re.compile("q=audit.*agent=fixer"))


@pytest.mark.thorough
def test_days_are_chosen_by_a_form(page: Page, project: Project) -> None:
    record_session(project, 1, title="today")
    page.goto("/?agent=demo")
    page.get_by_label("To", exact=True).fill("2020-01-01")
    page.get_by_role("button", name="Apply dates").click()
    expect(page.get_by_role("heading", name="No sessions found")).to_be_visible()
    page.get_by_role("link", name="to 2020-01-01 remove").click()
    expect(page.locator(".sessions .title")).to_have_text(["today"])


def test_filters_open_on_a_small_screen(page: Page, project: Project) -> None:
    record_session(project, 1, title="today")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/")
    expect(page.locator(".facets")).to_be_hidden()
    page.get_by_role("link", name="Filters", exact=True).click()
    expect(page.locator(".facets").get_by_role("link", name="today 1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_older_sessions_are_added_below(page: Page, project: Project) -> None:
    for number in range(60):
        create_session(project, names={"title": f"run {number}"})
    page.goto("/")
    expect(page.locator(".sessions .title")).to_have_count(50)
    page.get_by_role("link", name="More sessions").click()
    expect(page.locator(".sessions .title")).to_have_count(60)
    expect(page.get_by_role("link", name="More sessions")).to_have_count(0)


def test_the_outcome_of_a_session_is_on_one_line(page: Page, project: Project) -> None:
    append(project, create_session(project, names={"title": "at work"}).pk, [act()])
    page.goto("/")
    expect(page.locator("td.last")).to_have_text("in flight live")
    for width in (360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        baselines = [page.locator(f"td.last .{name}").evaluate(BASELINE) for name in ("outcome", "status")]
        assert baselines[0] == pytest.approx(baselines[1], abs=0.5), width


def test_a_transcript_is_uploaded_and_opened(page: Page, project: Project) -> None:
    messages = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello!"}]
    page.goto("/imports")
    content = json.dumps(messages).encode()
    chat = FilePayload(name="chat.json", mimeType="application/json", buffer=content)
    page.get_by_label("Files").set_input_files(chat)
    page.get_by_role("button", name="Import").click()
    page.locator(".report a").click()
    expect(page.locator("#step")).to_contain_text("Hello!")


def test_a_theme_is_chosen_and_kept(page: Page, project: Project) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator(".masthead summary").last.click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.goto("/imports")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
