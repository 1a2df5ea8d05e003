"""What people do on the list of sessions, and how they sign in."""

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from dashboard.views import sessions
from historyapp.models import Membership, Project
from historyapp.services.append import append
from historyapp.services.keys import create_sign_in_link
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.browser.visits import record_session
from tests.services.drafts import act

_BASELINE = """(element) => {
    const mark = document.createElement("span");
    mark.style.display = "inline-block";
    const words = document.createElement("span");
    element.lastChild.replaceWith(words);
    words.append(mark, "x");
    return mark.getBoundingClientRect().bottom;
}"""
# Both at once, because the list may be loaded again in between.
BASELINES = f"(cell) => ['.outcome', '.status'].map((name) => ({_BASELINE})(cell.querySelector(name)))"


def test_a_link_signs_in_and_a_theme_is_kept_after_signing_out(page: Page) -> None:
    user = User.objects.create_user("alice")
    Membership.objects.create(project=Project.objects.create(name="p"), user=user)
    page.emulate_media(color_scheme="light")
    page.goto(f"/sign-in/{create_sign_in_link(user)}")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Sign in").press("Enter")
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    page.locator(".masthead summary").last.click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator(".masthead summary").last.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


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


def test_the_list_its_unfolded_forks_and_the_running_agents_are_updated(page: Page, project: Project) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    session = create_session(project, names={"title": "Audit the ledgers"})
    append(project, session.pk, [act("look")])
    titles, at_work = page.locator(".sessions .title"), page.get_by_role("region", name="Live now")
    expect(at_work).to_contain_text("Audit the ledgers")
    expect(at_work).to_contain_text("step 1 is running: look")
    expect(titles).to_have_text(["Audit the ledgers"])
    expect(page.locator(".sessions tbody td.number").first).to_have_text("1")
    append(project, session.pk, [act("look")])
    change_session(project, session.pk, {"status": "finished"})
    record_session(project, 1, title="Repair the invoices")
    expect(titles).to_have_text(["Repair the invoices", "Audit the ledgers"])
    expect(page.locator(".sessions tbody tr").last.locator("td.number").first).to_have_text("2")
    expect(at_work).to_have_count(0)
    inner = fork(project, session.pk, at_step=1)
    page.get_by_role("link", name="1 fork").click()
    folded = page.locator(".sessions .folded-row td.number").first
    expect(folded).to_have_text("1")
    append(project, inner.pk, [act("look")])
    expect(folded).to_have_text("2")


def test_choosing_and_typing_filter_the_list_and_stay_in_the_address_and_in_a_search_of_all_steps(
    page: Page, project: Project
) -> None:
    record_session(project, 3, title="Audit the ledgers")
    record_session(project, 1, title="Repair the invoices")
    create_session(project, names={"title": "Audit the books", "agent": "writer"})
    titles, facets = page.locator(".sessions .title"), page.locator(".facets")
    page.goto("/?agent=demo")
    facets.get_by_role("link", name="with errors 1", exact=True).click()
    expect(titles).to_have_text(["Audit the ledgers"])
    expect(page).to_have_url(re.compile("errors=with&agent=demo"))
    page.get_by_role("link", name="with errors remove").click()
    expect(titles).to_have_count(2)
    page.get_by_placeholder("Title, agent or tag").fill("audit")
    expect(titles).to_have_text(["Audit the ledgers"])
    expect(facets.get_by_role("link", name="writer 1")).to_be_visible()
    expect(page).to_have_url(re.compile("q=audit.*agent=demo"))
    page.get_by_role("link", name="Search all steps").click()
    expect(page).to_have_url(re.compile(r"/search\?q=audit$"))


@pytest.mark.thorough
def test_days_are_chosen_by_a_form(page: Page, project: Project) -> None:
    record_session(project, 1, title="today")
    page.goto("/?agent=demo")
    page.get_by_label("To", exact=True).fill("2020-01-01")
    page.get_by_role("button", name="Apply dates").click()
    expect(page.get_by_role("heading", name="No sessions found")).to_be_visible()
    page.get_by_role("link", name="to 2020-01-01 remove").click()
    expect(page.locator(".sessions .title")).to_have_text(["today"])


def test_filters_open_on_a_small_screen_outcomes_fit_a_line_and_older_sessions_are_added_below(
    page: Page, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PAGE", 1)
    record_session(project, 1, title="older")
    append(project, create_session(project, names={"title": "at work"}).pk, [act()])
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/")
    expect(page.locator(".facets")).to_be_hidden()
    page.get_by_role("link", name="Filters", exact=True).click()
    expect(page.locator(".facets").get_by_role("link", name="today 2")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.locator("td.ended").first).to_have_text("in flight live")
    for width in (360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        baselines = page.locator("td.ended").first.evaluate(BASELINES)
        assert baselines[0] == pytest.approx(baselines[1], abs=0.5), width
        titles = page.locator("th[scope=row]").first.bounding_box()
        assert titles
        assert titles["width"] > 250, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(".sessions .title")).to_have_text(["at work", "older"])
    expect(page.get_by_role("link", name="More sessions")).to_have_count(0)
