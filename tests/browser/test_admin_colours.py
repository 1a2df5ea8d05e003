"""The administration has the dashboard's colours, light and dark, and no barrier that axe finds."""

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from tests.browser.visits import record_session, sign_in

GROUNDS: dict[Literal["light", "dark"], str] = {"light": "rgb(246, 247, 249)", "dark": "rgb(14, 17, 22)"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_administration_has_the_colours_of_the_scheme_and_no_barrier(
    page: Page, server: str, scheme: Literal["light", "dark"]
) -> None:
    record_session(sign_in(page.context, server), 2)
    User.objects.update(is_staff=True, is_superuser=True)
    page.emulate_media(color_scheme=scheme)
    page.goto("/admin/historyapp/session/")
    expect(page.locator("body")).to_have_css("background-color", GROUNDS[scheme])
    accent = {"light": "rgb(61, 90, 254)", "dark": "rgb(142, 162, 255)"}[scheme]
    expect(page.locator("#result_list tbody th a").first).to_have_css("color", accent)
    barriers = []
    for address in ("", "historyapp/session/", "historyapp/auditrecord/"):
        page.goto(f"/admin/{address}")
        barriers += [
            (barrier["id"], address, [node["html"][:200] for node in barrier["nodes"]])
            for barrier in Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        ]
    page.emulate_media(color_scheme="light")
    assert barriers == []
