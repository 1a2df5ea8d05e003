"""The administration has the dashboard's colours, light and dark, and no barrier that axe finds."""

from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from tests.browser.visits import record_session, sign_in

Scheme = Literal["light", "dark"]

COLOURS: dict[Scheme, tuple[str, str]] = {
    "light": ("rgb(246, 247, 249)", "rgb(61, 90, 254)"),
    "dark": ("rgb(14, 17, 22)", "rgb(142, 162, 255)"),
}
"""The colours of the page and of its links."""
RULES: dict[Scheme, dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
"""Options of axe-core. Only contrast depends on the scheme."""


def test_the_administration_has_the_colours_of_the_scheme_and_no_barrier(page: Page, server: str) -> None:
    record_session(sign_in(page.context, server), 2)
    User.objects.update(is_staff=True, is_superuser=True)
    page.goto("/admin/historyapp/session/")
    for scheme, (ground, accent) in COLOURS.items():
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_css("background-color", ground)
        expect(page.locator("#result_list tbody th a").first).to_have_css("color", accent)
    barriers = []
    for scheme, options in RULES.items():
        page.emulate_media(color_scheme=scheme)
        for address in ("", "historyapp/session/", "historyapp/auditrecord/"):
            page.goto(f"/admin/{address}")  # each time anew: the administration fades from colour to colour
            found = Axe().run(page, options={"resultTypes": ["violations"], **options})
            barriers += [
                (barrier["id"], scheme, address, [node["html"][:200] for node in barrier["nodes"]])
                for barrier in found.response["violations"]
            ]
    assert barriers == []
