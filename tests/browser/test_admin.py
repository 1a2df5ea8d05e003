"""The administration works under the content security policy, without other hosts."""

from django.contrib.auth.models import User
from playwright.sync_api import Page, Request, expect

from historyapp.models import Session
from tests.browser.visits import record_session, sign_in


def test_a_session_is_selected_confirmed_and_rewound(page: Page, server: str) -> None:
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    page.on("request", note)
    project = sign_in(page.context, server)
    User.objects.update(is_staff=True, is_superuser=True)
    session = record_session(project, 6)  # the sixth fails
    page.goto("/")
    page.locator(".masthead [data-menu] summary").last.click()
    page.get_by_role("link", name="Administration").click()
    page.get_by_role("link", name="Sessions", exact=True).first.click()
    expect(page.get_by_role("row").filter(has_text="Repair the totals")).to_be_visible()
    page.locator("tr input.action-select").check()
    expect(page.locator(".action-counter").first).to_have_text("1 of 1 selected")  # its script runs
    page.get_by_label("Action:").select_option("rewind_to_the_last_good_step")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("Rewinds to the end of step 5.")).to_be_visible()
    page.get_by_role("button", name="Rewind to the last good step").click()
    expect(page.get_by_text("rewound to step 5.")).to_be_visible()
    assert Session.objects.get(pk=session.pk).steps == 5
    page.get_by_role("link", name=str(session.pk)).click()
    expect(page.get_by_role("link", name="Open")).to_be_visible()
    page.get_by_role("link", name="View site").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert [url for url in requested if not url.startswith((server, "data:"))] == []
