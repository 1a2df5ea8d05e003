"""A fork beside its parent in the browser: the first difference is named, and keys lead to all of them."""

from playwright.sync_api import Locator, Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from tests.browser.visits import page_of, record_session, sign_in
from tests.services.drafts import act, ok


def forked(project: Project) -> Session:
    """A fork of a run of 7 steps at step 2. Its steps 4 and 5 differ, and its third has another outcome."""
    parent = record_session(project, 7)
    other = fork(project, parent.pk, at_step=2)
    for number in (3, 4, 5):
        path = "another.txt" if number == 4 else f"file-{number}.txt"
        append(project, other.pk, [act("read_file", path=path), ok(outputs=f"text {number}\n")])
    return other


def chosen(page: Page) -> Locator:
    return page.locator(".pair[aria-current]")


def test_the_menu_leads_to_a_comparison_with_the_parent_that_names_the_first_difference(
    page: Page, server: str
) -> None:
    other = forked(sign_in(page.context, server))
    page.goto(page_of(other, "?step=4"))
    page.locator(".actions summary", has_text="Compare").click()
    page.get_by_role("link", name="With another run…").click()
    expect(page.get_by_label("Its earlier state after step")).to_have_value("4")
    page.get_by_role("link", name="Parent:").click()
    expect(page.get_by_role("main")).to_contain_text("Both runs share steps 1–2.")
    expect(page.get_by_role("main")).to_contain_text("They diverge at step 4 of both.")
    page.get_by_role("link", name="Go there").click()
    expect(page.locator("#divergence")).to_be_in_viewport()
    expect(page.locator("#divergence")).to_contain_text("another.txt")
    expect_keys_and_buttons_to_move_between_differences(page)


def expect_keys_and_buttons_to_move_between_differences(page: Page) -> None:
    differing = page.locator(".pair:not(.pair-same)")
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


def open_differences(tab: Page, server: str) -> Locator:
    """Opens the differences in the row of the divergence."""
    other = forked(sign_in(tab.context, server))
    tab.goto(f"/compare?a={other.forked_from_id}&b={other.pk}")
    row = tab.locator("#divergence")
    expect(row.locator("ins")).to_have_count(0)
    row.get_by_text("Differences", exact=True).click()
    return row


def expect_diffs(shown: Locator) -> None:
    expect(shown.locator("ins").first).to_contain_text("another.txt")
    expect(shown.locator("del").first).to_contain_text("file-4.txt")


def test_a_row_opens_the_line_diffs_of_both_steps(page: Page, server: str) -> None:
    expect_diffs(open_differences(page, server))


def test_without_scripts_the_line_diffs_are_a_link_away(plain: Page, server: str) -> None:
    open_differences(plain, server).get_by_role("link", name="Show the differences").click()
    expect(plain.get_by_role("heading", level=1)).to_have_text("Differences of two steps")
    expect_diffs(plain.get_by_role("main"))
