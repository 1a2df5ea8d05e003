"""A fork beside its parent in the browser: the first difference is named, and keys lead to all of them."""

from playwright.sync_api import Locator, Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from tests.browser.visits import page_of, record_session, sign_in
from tests.services.drafts import act, ok


def forked(project: Project) -> Session:
    """A fork of a run of 12 steps at step 2. Its steps 4 and 10 differ."""
    parent = record_session(project, 12)
    other = fork(project, parent.pk, at_step=2)
    for number in range(3, 11):
        path = "another.txt" if number in (4, 10) else f"file-{number}.txt"
        append(project, other.pk, [act("read_file", path=path), ok(outputs=f"text {number}\n")])
    return other


def chosen(page: Page) -> Locator:
    return page.locator(".pair[aria-current]")


def test_a_fork_beside_its_parent_names_the_first_step_that_differs(page: Page, server: str) -> None:
    other = forked(sign_in(page.context, server))
    page.goto(page_of(other))
    page.get_by_role("link", name="Compare with parent").click()
    expect(page.get_by_role("main")).to_contain_text("Both runs share steps 1–2.")
    expect(page.get_by_role("main")).to_contain_text("They diverge at step 4 of A, step 4 of B.")
    page.get_by_role("link", name="Go there").click()
    expect(page.locator("#divergence")).to_be_in_viewport()
    expect(page.locator("#divergence")).to_contain_text("another.txt")


def test_keys_and_buttons_lead_from_difference_to_difference(page: Page, server: str) -> None:
    other = forked(sign_in(page.context, server))
    page.goto(f"/compare?a={other.forked_from_id}&b={other.pk}")
    differing = page.locator(".pair:not(.pair-same)")
    expect(differing.first).to_contain_text("file-3.txt")
    page.keyboard.press("n")
    expect(chosen(page)).to_contain_text("The first difference")
    expect(chosen(page).get_by_role("link").first).to_be_focused()
    page.keyboard.press("n")
    expect(chosen(page)).to_contain_text("The runs diverge here")
    expect(chosen(page)).to_be_in_viewport()
    page.keyboard.press("p")
    expect(chosen(page)).to_contain_text("The first difference")
    page.keyboard.press("p")
    expect(page.locator("#pair-note")).to_have_text("This is the first difference on this page.")
    for _ in range(differing.count() - 1):
        page.get_by_role("button", name="Next").click()
    expect(chosen(page)).to_contain_text("only")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#pair-note")).to_have_text("No further difference.")
    page.get_by_role("button", name="First difference").click()
    expect(chosen(page)).to_contain_text("file-3.txt")


def test_the_menu_of_a_session_offers_its_parent_its_forks_and_its_moments(page: Page, server: str) -> None:
    other = forked(sign_in(page.context, server))
    page.goto(page_of(other, "?step=5"))
    page.locator(".actions summary", has=page.get_by_role("img", name="More")).click()
    page.get_by_role("link", name="Compare with…").click()
    expect(page.get_by_role("link", name="Parent:")).to_be_visible()
    moment = page.get_by_label("Its earlier state after step")
    expect(moment).to_have_value("5")
    page.get_by_role("button", name="Compare").last.click()
    expect(page.get_by_role("main")).to_contain_text("Both runs share steps 1–5.")
