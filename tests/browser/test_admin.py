"""The administration in a browser: its policy, its colours, and no barrier that axe finds."""

from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, Request, expect

from historyapp.models import Session
from tests.browser.visits import AXE, record_session, sign_in

Scheme = Literal["light", "dark"]

COLOURS: dict[Scheme, tuple[str, str]] = {
    "light": ("rgb(246, 247, 249)", "rgb(61, 90, 254)"),
    "dark": ("rgb(14, 17, 22)", "rgb(142, 162, 255)"),
}
"""The dashboard's colours of the page and of its links."""
OPTIONS = {"resultTypes": ["violations"], "selectors": False, "preload": False}
RULES: dict[Scheme, dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
"""Options of axe-core. Only contrast depends on the scheme."""


@pytest.fixture
def session(page: Page, server: str) -> Session:
    session = record_session(sign_in(page.context, server), 6)  # the sixth fails
    User.objects.update(is_staff=True, is_superuser=True)
    return session


def look(page: Page, scheme: Scheme, address: str) -> None:
    """Opens a page again: the administration fades from colour to colour."""
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/admin/{address}")
    ground, accent = COLOURS[scheme]
    expect(page.locator("body")).to_have_css("background-color", ground)
    expect(page.locator("#content-main th a[href*='/session/']").first).to_have_css("color", accent)


def barriers(page: Page, scheme: Scheme) -> list[tuple[str, list[str]]]:
    page.evaluate(AXE)
    violations = page.evaluate("options => axe.run(options)", {**OPTIONS, **RULES[scheme]})["violations"]
    return [(barrier["id"], [node["html"][:200] for node in barrier["nodes"]]) for barrier in violations]


def test_a_session_is_rewound_in_the_dashboards_colours_without_another_host(
    page: Page, server: str, session: Session
) -> None:
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    page.on("request", note)
    look(page, "dark", "")
    assert barriers(page, "dark") == []
    look(page, "light", "historyapp/session/")
    assert barriers(page, "light") == []
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
    page.remove_listener("request", note)
    assert [url for url in requested if not url.startswith((server, "data:"))] == []


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", list(COLOURS))
def test_the_administration_has_no_barrier_in_either_scheme(
    page: Page, session: Session, scheme: Scheme
) -> None:
    for address in ("", "historyapp/session/"):
        look(page, scheme, address)
        assert barriers(page, scheme) == [], address
    page.goto("/admin/historyapp/auditrecord/")
    assert barriers(page, scheme) == []
